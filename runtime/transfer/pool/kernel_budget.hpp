// The kernel budget: bounds the kernels of this rank that spin on its device at a time, so that there is room for the
// work that they wait for. Used under the engine lock.
#pragma once

#include "device/device.hpp"

#include <vector>

namespace gpurun::transfer {

class KernelBudget {
  public:
    explicit KernelBudget(uint32_t units) : units_(units) {}

    // Whether a kernel that takes `units` may spin in `stream`; `done` reads `value` once it has ended. Kernels in one
    // stream run one after the other, and count once.
    bool admits(device::Stream stream, uint32_t units, const device::Counter& done, uint64_t value);

  private:
    struct SpinningKernel {
        device::Stream stream;
        uint32_t units;
        const device::Counter* done;
        uint64_t value;
    };
    const uint32_t units_;
    std::vector<SpinningKernel> spinning_;
};

} // namespace gpurun::transfer
