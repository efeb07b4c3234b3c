// Which runs of graphs are under way, and what is not given back before they have ended.
//
// cuMemFree(), cuMemFreeHost() and sometimes cuGraphExecDestroy() wait for the device, and no other call of the process
// gets through meanwhile (tests/device/facts). Work that ends by itself makes that harmless. But a run of a graph may
// wait for the run of a peer's, and whoever is to launch that one for a call of this process. So what is freed while a
// run is under way is put off: a later call gives it back, once the runs have ended.
//
// Known are the runs of gpurun_graph_launch(). Any thread. All but the constructor REQUIRE the device's context to be
// current, and all but launch() that the thread is beside captures (context.hpp).
#pragma once

#include "device/cuda/driver.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

namespace gpurun::device::cuda {

class GraphRuns {
  public:
    explicit GraphRuns(const Driver& driver) : driver_(driver) {}

    base::Result<void> launch(CUgraphExec graph, CUstream stream);
    // At once, or put off: for a graph until its own runs have ended, for memory until no graph runs.
    base::Result<void> destroy(CUgraphExec graph);
    base::Result<void> free(void* memory) { return give_back(Memory{memory, false}); }
    base::Result<void> free_pinned(void* memory) { return give_back(Memory{memory, true}); }
    // Gives back what was put off and need not be any longer.
    void catch_up() {
        if (put_off_.load(std::memory_order_relaxed) != 0) [[unlikely]] // relaxed: who misses one leaves it to the next
            give_back_what_can_be();
    }
    // The same, but waits until memory can be. False if there was none.
    bool wait_for_memory();

  private:
    struct Run {
        CUstream stream; // never followed: it may be gone
        CUevent done;
    };
    using Runs = std::vector<Run>; // the latest of each stream
    struct Destroyed {
        CUgraphExec graph;
        Runs runs;
    };
    struct Memory {
        void* pointer;
        bool pinned;
    };
    static constexpr size_t kMostUnchecked = 64; // graphs, before those that have ended are looked for

    // All of these REQUIRE the lock.
    base::Result<void> note(CUgraphExec graph, CUstream stream);
    base::Result<CUevent> take_event();
    void forget_ended(Runs& runs);
    bool under_way();
    base::Result<void> free_now(const Memory& memory) const;
    base::Result<void> destroy_now(CUgraphExec graph) const;

    base::Result<void> give_back(const Memory& memory);
    void give_back_what_can_be();

    const Driver& driver_;
    std::atomic<size_t> put_off_{0}; // destroyed_ and memory_ together
    // Held while a graph is launched and while memory is freed: nothing is launched once the free has found no run.
    std::mutex mutex_;
    std::map<CUgraphExec, Runs> runs_; // may have ended
    std::vector<Destroyed> destroyed_;
    std::vector<Memory> memory_;
    std::vector<CUevent> spare_;
};

} // namespace gpurun::device::cuda
