#include "device/emulated/graph_body.hpp"

#include "device/emulated/stream_queue.hpp"

#include <algorithm>

namespace gpurun::device::emulated {

GraphBody::~GraphBody() {
    streams_.clear(); // nothing runs any more
    for (const CallHost& call : at_end_)
        call.function(call.argument);
}

void GraphBody::add(size_t branch, const Operation& operation) {
    steps_.push_back({branch, operation});
    branches_[branch].joined = false;
}

base::Result<size_t> GraphBody::add_branch(StreamQueue& queue) {
    if (closed_)
        return base::Error{base::Status::kEvent, "the event was recorded in a capture that has ended: record it again "
                                                 "outside of the capture"};
    branches_.push_back({&queue});
    return branches_.size() - 1;
}

size_t GraphBody::add_edge(size_t branch) {
    Edge& edge = edges_.emplace_back();
    edge.branch = branch;
    steps_.push_back({branch, RunEdge{edges_.size() - 1, true}});
    edge.end = steps_.size();
    return edges_.size() - 1;
}

bool GraphBody::is_signal(const Step& step) {
    const auto* edge = std::get_if<RunEdge>(&step.operation);
    return edge != nullptr && edge->signals;
}

// A branch is joined while another waits for an edge behind its latest operation.
void GraphBody::await_edge(size_t branch, size_t edge) {
    Edge& awaited = edges_[edge];
    if (awaited.branch == branch)
        return; // it does as it is
    awaited.awaited = true;
    steps_.push_back({branch, RunEdge{edge, false}});
    branches_[branch].joined = false;
    const bool latest =
        std::none_of(steps_.begin() + static_cast<ptrdiff_t>(awaited.end), steps_.end(),
                     [&](const Step& step) { return step.branch == awaited.branch && !is_signal(step); });
    branches_[awaited.branch].joined |= latest;
}

void GraphBody::at_end(const CallHost& call) { at_end_.push_back(call); }

base::Result<void> GraphBody::close(const std::shared_ptr<GraphBody>& self) {
    closed_ = true;
    for (const Branch& branch : branches_)
        branch.queue->leave_capture(self);
    const bool joined =
        std::all_of(branches_.begin() + 1, branches_.end(), [](const Branch& each) { return each.joined; });
    if (joined)
        return {};
    return base::Error{base::Status::kStream, "a stream that joined the capture was not joined back: make the captured "
                                              "stream wait for an event behind all of its work"};
}

Operation GraphBody::in_run(const Operation& operation, uint64_t run) {
    const auto* edge = std::get_if<RunEdge>(&operation);
    if (edge == nullptr)
        return operation;
    std::atomic<uint64_t>& runs = edges_[edge->edge].runs;
    return edge->signals ? Operation(WriteWord{&runs, run}) : Operation(AwaitWord{&runs, run});
}

bool GraphBody::runs() {
    const std::lock_guard lock(launch_mutex_);
    return ended_.load(std::memory_order_acquire) != launched_;
}

base::Result<void> GraphBody::launch(const std::shared_ptr<GraphBody>& self, StreamQueue& queue) {
    const std::lock_guard lock(launch_mutex_);
    const uint64_t run = launched_ + 1;
    GPURUN_TRY(queue.enqueue(AwaitWord{&ended_, run - 1}));
    launched_ = run;
    for (const Step& step : steps_) {
        if (is_signal(step) && !edges_[std::get<RunEdge>(step.operation).edge].awaited)
            continue;
        StreamQueue& in = step.branch == 0 ? queue : *streams_[step.branch - 1];
        GPURUN_TRY(in.enqueue(in_run(step.operation, run)));
    }
    GPURUN_TRY(queue.enqueue(WriteWord{&ended_, run}));
    return queue.enqueue(EndRun{self});
}

} // namespace gpurun::device::emulated
