// Which runs of graphs are under way.
//
// A run may wait for a run of the peer's graph, and the peer may launch that only after a call of this process. So
// calls that wait for the whole device may be made only if no run is under way (transfer/memory/quiescence.hpp).
//
// Only runs of gpurun_graph_launch() are known. Any thread. All but the constructor REQUIRE the device's context to be
// current, and that the thread is beside captures (context.hpp).
#pragma once

#include "device/cuda/driver.hpp"

#include <map>
#include <mutex>
#include <vector>

namespace gpurun::device::cuda {

class GraphRuns {
  public:
    explicit GraphRuns(const Driver& driver) : driver_(driver) {}

    base::Result<void> launch(CUgraphExec graph, CUstream stream);
    // Owned if no run is under way. While it is, launch() waits.
    std::unique_lock<std::mutex> keep_still();

  private:
    static constexpr size_t kMostUnchecked = 64; // streams, before those whose runs have ended are looked for

    // These REQUIRE the lock.
    base::Result<void> note(CUstream stream);
    base::Result<CUevent> take_event();
    void forget_ended();

    const Driver& driver_;
    std::mutex launching_; // before mutex_
    std::mutex mutex_;     // guards what follows
    // Behind the latest run in each stream. Streams are never followed: they may be gone.
    std::map<CUstream, CUevent> latest_;
    std::vector<CUevent> spare_;
};

} // namespace gpurun::device::cuda
