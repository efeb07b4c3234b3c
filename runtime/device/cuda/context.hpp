// The device's primary context, current for the calling thread while a ScopedContext lives; what the caller had
// current (another device, or nothing) comes back afterwards. Two loads of the driver in the common case.
#pragma once

#include "device/cuda/driver.hpp"

namespace gpurun::device::cuda {

class ScopedContext {
  public:
    // A failure to switch (CUDA has shut down) is reported by the call that follows.
    ScopedContext(const Driver& driver, CUcontext context) : driver_(driver) {
        if (driver_.cuCtxGetCurrent(&previous_) != CUDA_SUCCESS || previous_ == context)
            return;
        switched_ = driver_.cuCtxSetCurrent(context) == CUDA_SUCCESS;
    }
    ~ScopedContext() {
        if (switched_)
            driver_.cuCtxSetCurrent(previous_);
    }
    ScopedContext(const ScopedContext&) = delete;
    ScopedContext& operator=(const ScopedContext&) = delete;

  private:
    const Driver& driver_;
    CUcontext previous_ = nullptr;
    bool switched_ = false;
};

} // namespace gpurun::device::cuda
