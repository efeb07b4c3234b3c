// Guards around calls of the driver.
//
// ScopedContext: the device's primary context, current for the calling thread while a ScopedContext lives; what the
// caller had current (another device, or nothing) comes back afterwards. Two loads of the driver in the common case.
//
// BesideCapture: while any thread captures a stream in CUDA's default mode, the driver refuses calls of other threads
// that might depend on captured work, such as allocating or querying an event, and makes the capture fail. Calls under
// BesideCapture are exempt.
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

class BesideCapture {
  public:
    explicit BesideCapture(const Driver& driver) : driver_(driver) {
        (void)driver_.cuThreadExchangeStreamCaptureMode(&mode_);
    }
    ~BesideCapture() { (void)driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
    BesideCapture(const BesideCapture&) = delete;
    BesideCapture& operator=(const BesideCapture&) = delete;

  private:
    const Driver& driver_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; // then the thread's own
};

} // namespace gpurun::device::cuda
