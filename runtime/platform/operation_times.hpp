// When an operation ran on its device: written there, by the device's own clock, and read by whoever knows how that
// relates to others (ClockReading).
#pragma once

#include <atomic>
#include <cstdint>

namespace gpurun::platform {

// In host memory that the device can write. All are 0 at first, and `done` is written last: at the latest when the
// operation is over for its stream; what it signals may be seen before.
struct OperationTimes {
    std::atomic<int64_t> began;  // it began to wait for its peer; 0: it had nothing to wait for
    std::atomic<int64_t> moving; // it began to move bytes
    std::atomic<int64_t> done;
};
static_assert(sizeof(OperationTimes) == 24);

// The same of one run of an operation that graphs repeat. All are 0 at first.
struct RunTimes {
    OperationTimes times;
    std::atomic<uint64_t> run;  // of the operation, from 0 on
    std::atomic<uint64_t> name; // of the operation, for whoever reads; never 0 once it is written
};
static_assert(sizeof(RunTimes) == 40);

// A device's clock beside CLOCK_MONOTONIC, both in nanoseconds.
struct ClockReading {
    int64_t device_ns = 0;
    int64_t host_ns = 0;  // 0: there is none
    int64_t error_ns = 0; // of host_ns, either way
};

} // namespace gpurun::platform
