#include "device/cuda/graph_runs.hpp"

#include "base/log.hpp"

namespace gpurun::device::cuda {

using base::Result;

Result<void> GraphRuns::launch(CUgraphExec graph, CUstream stream) {
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    GPURUN_TRY(
        driver_.check(driver_.cuStreamIsCapturing(stream, &capturing), "cuStreamIsCapturing", base::Status::kStream));
    const std::lock_guard launching(launching_);
    GPURUN_TRY(driver_.check(driver_.cuGraphLaunch(graph, stream), "cuGraphLaunch"));
    if (capturing != CU_STREAM_CAPTURE_STATUS_NONE) // a part of another graph, which runs in its own name
        return {};
    const std::lock_guard lock(mutex_);
    if (auto noted = note(stream); !noted)
        base::log(base::LogLevel::kWarn, "a run of a graph is not known, and freeing memory may wait for it: {}",
                  noted.error().detail);
    return {};
}

Result<void> GraphRuns::note(CUstream stream) {
    if (latest_.size() > kMostUnchecked)
        forget_ended();
    auto run = latest_.find(stream);
    if (run == latest_.end()) {
        GPURUN_ASSIGN(const CUevent event, take_event());
        run = latest_.emplace(stream, event).first;
    }
    return driver_.check(driver_.cuEventRecord(run->second, stream), "cuEventRecord");
}

Result<CUevent> GraphRuns::take_event() {
    CUevent event = nullptr;
    if (spare_.empty()) {
        GPURUN_TRY(driver_.check(driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
        return event;
    }
    event = spare_.back();
    spare_.pop_back();
    return event;
}

void GraphRuns::forget_ended() {
    std::erase_if(latest_, [&](const auto& run) {
        if (driver_.cuEventQuery(run.second) == CUDA_ERROR_NOT_READY)
            return false; // a device that has failed runs nothing
        spare_.push_back(run.second);
        return true;
    });
}

// Who launches may be held up by the device for long, and runs are under way then.
std::unique_lock<std::mutex> GraphRuns::keep_still() {
    std::unique_lock still(launching_, std::try_to_lock);
    const std::lock_guard lock(mutex_);
    forget_ended();
    if (still && !latest_.empty())
        still.unlock();
    return still;
}

} // namespace gpurun::device::cuda
