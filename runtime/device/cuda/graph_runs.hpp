// Which runs of graphs are under way, and graphs that are destroyed once theirs have ended.
//
// cuGraphExecDestroy() sometimes waits for the runs of its graph, and no other call of the process gets through
// meanwhile (seen on H200, driver 580). A run may wait for that of a peer's, and whoever is to launch that one for a
// call of this process. So a graph whose runs are under way is destroyed by a later call.
//
// Known are the runs of gpurun_graph_launch(). Any thread. All but the constructor REQUIRE the device's context to be
// current, and that the thread is beside captures (context.hpp).
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
    // At once, or when its runs have ended.
    base::Result<void> destroy(CUgraphExec graph);
    // Destroys what was to be destroyed later and now can be.
    void catch_up() {
        if (destroyed_later_.load(std::memory_order_relaxed) != 0) [[unlikely]] // who misses one leaves it to the next
            destroy_ended();
    }
    // Owned if no run is under way. While it is, launch() waits.
    std::unique_lock<std::mutex> keep_still();

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
    static constexpr size_t kMostUnchecked = 64; // graphs, before those that have ended are looked for

    // These REQUIRE the lock.
    base::Result<void> note(CUgraphExec graph, CUstream stream);
    base::Result<CUevent> take_event();
    void forget_ended(Runs& runs);
    bool forget_ended(); // whether there are others

    void destroy_ended();
    base::Result<void> destroy_now(CUgraphExec graph) const;

    const Driver& driver_;
    std::atomic<size_t> destroyed_later_{0}; // what is in destroyed_
    std::mutex launching_;                   // before mutex_
    std::mutex mutex_;                       // guards what follows
    std::map<CUgraphExec, Runs> runs_;       // may have ended
    std::vector<Destroyed> destroyed_;
    std::vector<CUevent> spare_;
};

} // namespace gpurun::device::cuda
