#include "device/cuda/graph_runs.hpp"

#include "base/format.hpp"
#include "base/log.hpp"

#include <algorithm>

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
    if (auto noted = note(graph, stream); !noted)
        base::log(base::LogLevel::kWarn, "a run of a graph is not known, and destroying it may wait: {}",
                  noted.error().detail);
    return {};
}

Result<void> GraphRuns::note(CUgraphExec graph, CUstream stream) {
    if (runs_.size() > kMostUnchecked)
        (void)forget_ended();
    Runs& runs = runs_[graph];
    auto run = std::find_if(runs.begin(), runs.end(), [&](const Run& each) { return each.stream == stream; });
    if (run == runs.end()) {
        GPURUN_ASSIGN(const CUevent done, take_event());
        run = runs.insert(runs.end(), Run{stream, done});
    }
    return driver_.check(driver_.cuEventRecord(run->done, stream), "cuEventRecord");
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

void GraphRuns::forget_ended(Runs& runs) {
    const auto ended = std::partition(runs.begin(), runs.end(), [&](const Run& run) {
        return driver_.cuEventQuery(run.done) == CUDA_ERROR_NOT_READY; // a device that has failed runs nothing
    });
    for (auto run = ended; run != runs.end(); ++run)
        spare_.push_back(run->done);
    runs.erase(ended, runs.end());
}

bool GraphRuns::forget_ended() {
    for (auto each = runs_.begin(); each != runs_.end();) {
        forget_ended(each->second);
        each = each->second.empty() ? runs_.erase(each) : std::next(each);
    }
    for (Destroyed& each : destroyed_)
        forget_ended(each.runs);
    return !runs_.empty() ||
           std::any_of(destroyed_.begin(), destroyed_.end(), [](const Destroyed& each) { return !each.runs.empty(); });
}

// Who launches may be held up by the device for long, and runs are under way then.
std::unique_lock<std::mutex> GraphRuns::keep_still() {
    std::unique_lock still(launching_, std::try_to_lock);
    const std::lock_guard lock(mutex_);
    if (still && forget_ended())
        still.unlock();
    return still;
}

Result<void> GraphRuns::destroy(CUgraphExec graph) {
    const std::lock_guard lock(mutex_);
    Destroyed destroyed{graph, {}};
    if (const auto found = runs_.find(graph); found != runs_.end()) {
        destroyed.runs = std::move(found->second);
        runs_.erase(found);
        forget_ended(destroyed.runs);
    }
    if (destroyed.runs.empty())
        return destroy_now(graph);
    destroyed_.push_back(std::move(destroyed));
    ++destroyed_later_;
    return {};
}

void GraphRuns::destroy_ended() {
    const std::lock_guard lock(mutex_);
    (void)forget_ended();
    const auto ended =
        std::partition(destroyed_.begin(), destroyed_.end(), [](const Destroyed& each) { return !each.runs.empty(); });
    for (auto each = ended; each != destroyed_.end(); ++each)
        if (auto done = destroy_now(each->graph); !done)
            base::log(base::LogLevel::kWarn, "destroying a graph after its runs: {}", done.error().detail);
    destroyed_.erase(ended, destroyed_.end());
    destroyed_later_ = destroyed_.size();
}

Result<void> GraphRuns::destroy_now(CUgraphExec graph) const {
    return driver_.check(driver_.cuGraphExecDestroy(graph), "cuGraphExecDestroy");
}

} // namespace gpurun::device::cuda
