// When messages moved on a rank's device, by the clock of the trace (CLOCK_MONOTONIC).
//
// The device writes times by its own clock (platform/operation_times.hpp). The rank reads both clocks when it joins,
// and when it leaves, if it gets there. Times between are converted by the line through the two readings, since clocks
// differ in speed, too. Without the second reading the clocks are taken to be equally fast.
#pragma once

#include "platform/trace_buffer.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpurun::launcher {

class DeviceClock {
  public:
    explicit DeviceClock(std::span<const platform::ClockReading, 2> readings);
    int64_t to_host_ns(int64_t device_ns) const;

  private:
    platform::ClockReading first_;
    double host_per_device_ = 1;
};

struct MovedMessage {
    uint64_t event = 0;          // of it, in the rank's buffer
    std::optional<uint64_t> run; // of a message of a graph, from 0 on
    // 0: not known. Nonsense is possible.
    int64_t began_ns = 0;
    int64_t moving_ns = 0;
    int64_t done_ns = 0;
};

// And runs of messages of graphs. In the order in which they began; those of which that is not known last.
std::vector<MovedMessage> moved_messages(const platform::TraceBuffer& buffer);

} // namespace gpurun::launcher
