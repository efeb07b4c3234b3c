// Counters: streams write and await numbers that CPUs and other processes see.
//
// They order the streams of two ranks faster than events do, and a rank that waits for a dead one is released.
#pragma once

#include "base/status.hpp"
#include "device/types.hpp"

namespace gpurun::device {

// A counter, and what it is to read.
struct CounterValue {
    Counter* counter = nullptr;
    uint64_t value = 0;
};

class Counters {
  public:
    // Enqueue: the counter reads `value` after everything before in the stream is visible to whoever reads it.
    virtual base::Result<void> write_counter(Stream stream, Counter* counter, uint64_t value) = 0;
    // Enqueue: what follows in the stream starts once the counter reads `value` or more, and sees what was visible
    // then.
    virtual base::Result<void> await_counter(Stream stream, Counter* counter, uint64_t value) = 0;
    // await_counter(), by something that looks at the counter all the time, so what follows starts sooner. It keeps a
    // part of the device busy until it is released: what it waits for must be able to run beside it
    // (Info::spinning_blocks, transfer/channel/gpu_sharing.hpp).
    virtual base::Result<void> watch_counter(Stream stream, Counter* counter, uint64_t value) = 0;

  protected:
    ~Counters() = default; // it is a part of a Device
};

} // namespace gpurun::device
