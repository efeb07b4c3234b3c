// A clock: the device says when its operations ran. For traces.
#pragma once

#include "base/status.hpp"
#include "device/types.hpp"
#include "platform/operation_times.hpp"

namespace gpurun::device {

// Where the device writes when an operation ran: in memory like that of counters, by the clock of read_clock(). Nobody
// gives such memory to a device without a clock.
using Times = platform::OperationTimes;

class Clock {
  public:
    // What Times count by, beside the CPU's clock. Waits for the device a little; kDevice if it has no room for that.
    virtual base::Result<platform::ClockReading> read_clock() = 0;
    // Enqueue: `where`, a part of Times, reads what the device's clock does once everything before in the stream is
    // over.
    virtual base::Result<void> write_time(Stream stream, std::atomic<int64_t>* where) = 0;

  protected:
    ~Clock() = default; // it is a part of a Device
};

} // namespace gpurun::device
