// Memory of other devices of this process: copies to and from it.
//
// Streams of the rank's own device may have no access to such memory: peer access may be off, and memory of a pool or
// of cuMemMap() is accessible only to the devices that its owner named. Its own device has access. So the copy runs in
// a stream of that device, a branch: behind an event of the rank's stream, and before an event that the rank's stream
// waits for. The host does not wait.
//
// A branch serves one stream at a time, so that a stream that is held up holds up no other; there are as many as a GPU
// runs side by side, then they are shared. Any thread. Contexts are the devices' primary ones.
#pragma once

#include "base/function_ref.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/driver.hpp"

#include <map>
#include <mutex>
#include <vector>

namespace gpurun::device::cuda {

class Elsewhere {
  public:
    // `own`: the context of the rank's device.
    Elsewhere(const Driver& driver, CUcontext own) : driver_(driver), own_(own) {}
    ~Elsewhere();
    Elsewhere(const Elsewhere&) = delete;
    Elsewhere& operator=(const Elsewhere&) = delete;

    // Calls `work` with a stream of `device`, whose context is current: what it enqueues comes after what is in
    // `stream`, one of the rank's device, and before what follows there.
    base::Result<void> enqueue(CUdevice device, CUstream stream, base::FunctionRef<CUresult(CUstream)> work);

  private:
    static constexpr size_t kMostBranches = 32;

    struct Branch {
        CUstream stream = nullptr;
        CUevent done = nullptr;
        CUstream user = nullptr; // the rank's stream that it served last
    };
    struct Other {
        CUcontext context = nullptr;
        std::vector<Branch> branches;
        size_t next = 0; // in turn, once there are kMostBranches
    };

    base::Result<Other*> open(CUdevice device);
    base::Result<CUevent> reached(CUstream stream);
    base::Result<Branch*> branch(Other& other, CUstream user);

    const Driver& driver_;
    const CUcontext own_;
    std::mutex mutex_; // guards all below
    std::map<CUdevice, Other> others_;
    CUevent reached_ = nullptr; // of the own device; a wait latches its record when it is made
};

} // namespace gpurun::device::cuda
