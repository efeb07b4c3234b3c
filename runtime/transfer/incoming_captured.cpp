// Messages of graphs: what is enqueued once, while the target's stream is captured.
#include "transfer/incoming.hpp"

namespace gpurun::transfer {

using base::Result;

Result<void> Incoming::start_captured(const Record& record) {
    trace_.chosen({record.slot.valid != 0 ? Path::kDirect : Path::kMailbox, Reason::kCaptured});
    if (ends_in_stream()) {
        GPURUN_TRY(link_->channels.receive(record, operand_, bytes_, operand_.stream, false));
        finish();
        return {};
    }
    GPURUN_TRY(take_branch());
    GPURUN_TRY(link_->channels.receive(record, operand_, bytes_, *branch_, true));
    state_ = State::kCaptured;
    return {};
}

// What follows the start of the receive in the stream does not wait for the message: it may have to run first.
Result<void> Incoming::take_branch() {
    if (branch_)
        return {};
    GPURUN_ASSIGN(branch_, context_.capture_streams.take());
    return context_.joints.order(operand_.stream, *branch_);
}

Result<void> Incoming::join_branch(device::Stream stream) {
    GPURUN_TRY(context_.joints.order(*branch_, stream));
    context_.capture_streams.give_back(*std::exchange(branch_, std::nullopt));
    if (!done())
        finish();
    return {};
}

void Incoming::miss_capture() {
    if (state_ == State::kCaptured)
        fail(base::Error{base::Status::kStream, "the capture in which the receive was started has ended, and it was "
                                                "not waited for: it is part of no graph"});
}

} // namespace gpurun::transfer
