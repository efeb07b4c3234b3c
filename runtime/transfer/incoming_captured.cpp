// Messages of graphs: what is enqueued once, while the target's stream is captured.
//
// By the thread that captures, always: a graph is not guarded against two that add to it. A blocking call waits for its
// match, whichever thread makes it. A request that was started is matched by any thread, and enqueued by the one that
// waits for it.
#include "transfer/incoming.hpp"

#include "platform/clock.hpp"

namespace gpurun::transfer {

using base::Result;

Result<void> Incoming::start_captured(const Record& record) {
    constexpr int64_t kUncoveredWithinNs = 30'000'000'000; // else the runs may wait for what comes after this message
    trace_.chosen(Channels::choice_of(record));
    captured_ = std::make_unique<const Record>(record);
    state_ = State::kCovered;
    verdict_by_ns_ = platform::now_ns() + kUncoveredWithinNs;
    if (missed_)
        return missed_capture();
    if (!ends_in_stream())
        GPURUN_TRY(take_branch()); // already there, unless it is matched in the call that starts it
    return uncover();
}

// Unmapping waits for the device, so it waits itself for runs of graphs that may wait for a peer.
Result<void> Incoming::uncover() {
    GPURUN_ASSIGN(const bool mapped,
                  link_->channels.map_source(*captured_, bytes_, platform::now_ns() > verdict_by_ns_));
    if (!mapped)
        return {};
    if (ends_in_stream()) {
        const std::unique_ptr<const Record> record = std::move(captured_);
        GPURUN_TRY(link_->channels.receive(*record, operand_, bytes_, operand_.stream, false,
                                           trace_.name_of_runs(context_.trace)));
        finish();
        return {};
    }
    state_ = State::kCaptured;
    return {};
}

// What follows the start of the receive in the stream does not wait for the message: it may have to run first.
Result<void> Incoming::take_branch() {
    if (branch_)
        return {};
    GPURUN_ASSIGN(branch_, context_.capture_streams.take());
    return context_.capture_joints.order(operand_.stream, *branch_);
}

Result<void> Incoming::enqueue_captured() {
    if (link_->lost)
        return base::Error{base::Status::kPeerLost,
                           "the other rank died before the message had become part of a graph"};
    const std::unique_ptr<const Record> record = std::move(captured_);
    return link_->channels.receive(*record, operand_, bytes_, *branch_, true, trace_.name_of_runs(context_.trace));
}

Result<void> Incoming::join_branch(device::Stream stream) {
    if (captured_)
        if (auto enqueued = enqueue_captured(); !enqueued)
            fail(std::move(enqueued).error()); // the branch has to come back all the same
    if (!missed_)
        GPURUN_TRY(context_.capture_joints.order(*branch_, stream));
    context_.capture_streams.give_back(*std::exchange(branch_, std::nullopt));
    if (!done())
        finish();
    return {};
}

base::Error Incoming::missed_capture() {
    return base::Error{base::Status::kStream, "the capture in which the receive was started has ended, and it was not "
                                              "waited for: it is part of no graph"};
}

void Incoming::miss_capture() {
    missed_ = true; // told when it is matched, so that its message is taken from the source
    if (captured_)
        fail(missed_capture());
}

} // namespace gpurun::transfer
