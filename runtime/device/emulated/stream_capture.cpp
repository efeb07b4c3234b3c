// A stream while it is captured: what is enqueued goes into a graph.
#include "base/format.hpp"
#include "device/emulated/graph_body.hpp"
#include "device/emulated/stream_queue.hpp"

namespace gpurun::device::emulated {

base::Result<void> StreamQueue::enqueue(const Operation& operation) {
    GPURUN_ASSIGN(const std::unique_lock lock, lock_with_room());
    if (captured_)
        captured_->add(branch_, operation);
    else
        push(operation);
    return {};
}

base::Result<void> StreamQueue::begin_capture() {
    const std::lock_guard lock(mutex_);
    if (captured_)
        return base::error(base::Status::kStream, "the stream is being captured already");
    auto body = std::make_shared<GraphBody>();
    GPURUN_ASSIGN(branch_, body->add_branch(*this));
    captured_ = std::move(body);
    return {};
}

base::Result<std::shared_ptr<GraphBody>> StreamQueue::end_capture() {
    std::shared_ptr<GraphBody> body;
    {
        const std::lock_guard lock(mutex_);
        if (!captured_)
            return base::error(base::Status::kStream, "the stream is not being captured");
        if (branch_ != 0)
            return base::error(base::Status::kStream, "the stream has joined the capture of another: end that one's");
        body = captured_;
    }
    GPURUN_TRY(body->close(body));
    return body;
}

std::shared_ptr<GraphBody> StreamQueue::captured() {
    const std::lock_guard lock(mutex_);
    return captured_;
}

size_t StreamQueue::mark_captured() {
    const std::lock_guard lock(mutex_);
    return captured_->add_edge(branch_);
}

base::Result<void> StreamQueue::join_capture(const std::shared_ptr<GraphBody>& body, size_t edge) {
    const std::lock_guard lock(mutex_);
    if (captured_ && captured_ != body)
        return base::error(base::Status::kStream, "the stream and the event belong to two captures");
    if (!captured_) {
        GPURUN_ASSIGN(branch_, body->add_branch(*this));
        captured_ = body;
    }
    body->await_edge(branch_, edge);
    return {};
}

void StreamQueue::leave_capture(const std::shared_ptr<GraphBody>& body) {
    const std::lock_guard lock(mutex_);
    if (captured_ == body)
        captured_ = nullptr;
}

} // namespace gpurun::device::emulated
