// A computation that takes as long as it is told to, next to which transfers are measured: work of a fixed amount, not
// a wait for a time, so that whatever slows it down shows.
//
// In stream order it is a kernel on all multiprocessors; on emulated devices a function on the stream's thread. In host
// order it is a loop in the calling thread. One thread.
#pragma once

#include "options.hpp"

#include <gpurun/gpurun.h>

#include <array>
#include <cstdint>

namespace gpurun::bench {

class Compute {
  public:
    explicit Compute(const gpurun_device_info& device);

    // From now on start() takes about this long, alone.
    void set_us(double us, Order order);

    // Stream: enqueues it. Host: does it. The object stays until it is done.
    void start(Order order, gpurun_stream stream);

  private:
    double amount_a_us(Order order);

    bool on_gpu_;
    int ordinal_;
    uint64_t amount_ = 1;
    std::array<double, 2> amount_a_us_{}; // by order domain; 0: not measured yet
};

// The kernel (compute_kernel.cu); a build without CUDA never calls it.
void enqueue_kernel(int ordinal, gpurun_stream stream, uint64_t amount);

} // namespace gpurun::bench
