#include "device/cuda/elsewhere.hpp"

#include "base/format.hpp"
#include "base/log.hpp"

#include <algorithm>

namespace gpurun::device::cuda {

using base::Result;

// A device that fails here keeps what it has; nothing to do.
Elsewhere::~Elsewhere() {
    for (auto& [device, other] : others_) {
        for (const Branch& each : other.branches) {
            const ScopedContext current(driver_, other.context);
            (void)driver_.cuEventDestroy(each.done);
            (void)driver_.cuStreamDestroy(each.stream);
        }
        (void)driver_.cuDevicePrimaryCtxRelease(device);
    }
    if (reached_ != nullptr) {
        const ScopedContext current(driver_, own_);
        (void)driver_.cuEventDestroy(reached_);
    }
}

Result<Elsewhere::Other*> Elsewhere::open(CUdevice device) {
    if (const auto found = others_.find(device); found != others_.end())
        return &found->second;
    Other other;
    GPURUN_TRY(driver_.check(driver_.cuDevicePrimaryCtxRetain(&other.context, device), "cuDevicePrimaryCtxRetain"));
    const ScopedContext current(driver_, other.context);
    complete_copies(driver_);
    return &others_.emplace(device, std::move(other)).first->second;
}

Result<CUevent> Elsewhere::reached(CUstream stream) {
    const ScopedContext current(driver_, own_);
    if (reached_ == nullptr)
        GPURUN_TRY(driver_.check(driver_.cuEventCreate(&reached_, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    GPURUN_TRY(driver_.check(driver_.cuEventRecord(reached_, stream), "cuEventRecord", base::Status::kStream));
    return reached_;
}

// REQUIRES the other device's context to be current.
Result<Elsewhere::Branch*> Elsewhere::branch(Other& other, CUstream user) {
    std::vector<Branch>& all = other.branches;
    const auto same = std::find_if(all.begin(), all.end(), [&](const Branch& each) { return each.user == user; });
    if (same != all.end())
        return &*same;
    const auto idle = std::find_if(all.begin(), all.end(),
                                   [&](const Branch& each) { return driver_.cuEventQuery(each.done) == CUDA_SUCCESS; });
    if (idle != all.end())
        return &*idle;
    if (all.size() == kMostBranches)
        return &all[other.next++ % kMostBranches];
    Branch made;
    GPURUN_TRY(driver_.check(driver_.cuStreamCreate(&made.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
    const CUresult result = driver_.cuEventCreate(&made.done, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) {
        (void)driver_.cuStreamDestroy(made.stream);
        return driver_.error(result, "cuEventCreate");
    }
    return &all.emplace_back(made);
}

Result<void> Elsewhere::enqueue(CUdevice device, CUstream stream, base::FunctionRef<CUresult(CUstream)> work) {
    const std::lock_guard lock(mutex_);
    const BesideCapture beside(driver_);
    GPURUN_ASSIGN(Other * other, open(device));
    GPURUN_ASSIGN(const CUevent before, reached(stream));
    CUevent after = nullptr;
    {
        const ScopedContext current(driver_, other->context);
        GPURUN_ASSIGN(Branch * through, branch(*other, stream));
        through->user = stream;
        after = through->done;
        GPURUN_TRY(driver_.check(driver_.cuStreamWaitEvent(through->stream, before, 0), "cuStreamWaitEvent"));
        GPURUN_TRY(driver_.check(work(through->stream), "a copy on another device"));
        GPURUN_TRY(driver_.check(driver_.cuEventRecord(after, through->stream), "cuEventRecord"));
    }
    const ScopedContext current(driver_, own_);
    return driver_.check(driver_.cuStreamWaitEvent(stream, after, 0), "cuStreamWaitEvent", base::Status::kStream);
}

} // namespace gpurun::device::cuda
