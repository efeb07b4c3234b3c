#include "device/cuda/graph_runs.hpp"

#include "base/format.hpp"
#include "base/log.hpp"

#include <algorithm>

namespace gpurun::device::cuda {

using base::Result;

namespace {

void warn_unless(const Result<void>& given_back) {
    if (!given_back)
        base::log(base::LogLevel::kWarn, "giving back what was freed while graphs ran: {}", given_back.error().detail);
}

} // namespace

Result<void> GraphRuns::launch(CUgraphExec graph, CUstream stream) {
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    GPURUN_TRY(
        driver_.check(driver_.cuStreamIsCapturing(stream, &capturing), "cuStreamIsCapturing", base::Status::kStream));
    const std::lock_guard lock(mutex_);
    GPURUN_TRY(driver_.check(driver_.cuGraphLaunch(graph, stream), "cuGraphLaunch"));
    if (capturing != CU_STREAM_CAPTURE_STATUS_NONE) // a part of another graph, which runs in its own name
        return {};
    if (auto noted = note(graph, stream); !noted)
        base::log(base::LogLevel::kWarn, "a run of a graph is not known, so freeing may wait for it: {}",
                  noted.error().detail);
    return {};
}

Result<void> GraphRuns::note(CUgraphExec graph, CUstream stream) {
    if (runs_.size() > kMostUnchecked)
        (void)under_way();
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

bool GraphRuns::under_way() {
    for (auto each = runs_.begin(); each != runs_.end();) {
        forget_ended(each->second);
        each = each->second.empty() ? runs_.erase(each) : std::next(each);
    }
    for (Destroyed& each : destroyed_)
        forget_ended(each.runs);
    return !runs_.empty() ||
           std::any_of(destroyed_.begin(), destroyed_.end(), [](const Destroyed& each) { return !each.runs.empty(); });
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
    ++put_off_;
    return {};
}

Result<void> GraphRuns::give_back(const Memory& memory) {
    const std::lock_guard lock(mutex_);
    if (!under_way())
        return free_now(memory);
    memory_.push_back(memory);
    ++put_off_;
    return {};
}

void GraphRuns::give_back_what_can_be() {
    const std::lock_guard lock(mutex_);
    const bool running = under_way();
    const auto kept =
        std::partition(destroyed_.begin(), destroyed_.end(), [](const Destroyed& each) { return !each.runs.empty(); });
    for (auto each = kept; each != destroyed_.end(); ++each)
        warn_unless(destroy_now(each->graph));
    destroyed_.erase(kept, destroyed_.end());
    if (!running) {
        for (const Memory& each : memory_)
            warn_unless(free_now(each));
        memory_.clear();
    }
    put_off_ = destroyed_.size() + memory_.size();
}

bool GraphRuns::wait_for_memory() {
    std::vector<CUevent> awaited;
    {
        const std::lock_guard lock(mutex_);
        if (memory_.empty())
            return false;
        (void)under_way();
        for (const auto& [graph, runs] : runs_)
            for (const Run& run : runs)
                awaited.push_back(run.done);
        for (const Destroyed& each : destroyed_)
            for (const Run& run : each.runs)
                awaited.push_back(run.done);
    }
    for (const CUevent each : awaited) // whoever records it again meanwhile makes the wait longer
        (void)driver_.cuEventSynchronize(each);
    give_back_what_can_be();
    return true;
}

Result<void> GraphRuns::free_now(const Memory& memory) const {
    if (memory.pinned)
        return driver_.check(driver_.cuMemFreeHost(memory.pointer), "cuMemFreeHost");
    return driver_.check(driver_.cuMemFree(reinterpret_cast<CUdeviceptr>(memory.pointer)), "cuMemFree");
}

Result<void> GraphRuns::destroy_now(CUgraphExec graph) const {
    return driver_.check(driver_.cuGraphExecDestroy(graph), "cuGraphExecDestroy");
}

} // namespace gpurun::device::cuda
