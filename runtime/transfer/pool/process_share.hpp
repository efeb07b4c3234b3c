// What the engines of a process share: it has one for each job that it is in, all on one device.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpurun::transfer {

// How many there are. Each has its part of what the device bounds: streams that wait, and blocks that spin. Relaxed: an
// engine is counted before its first message, and until after its last.
using EngineCount = std::atomic<uint32_t>;
inline const EngineCount kOneEngine{1};

struct ProcessShare {
    EngineCount engines{0};
    // A thread of the driver's tells, some time after a graph was destroyed, that its messages are gone. Until this
    // time it may yet do so.
    std::atomic<int64_t> graphs_end_by_ns{0};
    static constexpr int64_t kGraphEndsWithinNs = 1'000'000'000;
    static constexpr int64_t kGraphsLeft = INT64_MAX; // some graphs are yet to be destroyed (DeferredFree)
};

} // namespace gpurun::transfer
