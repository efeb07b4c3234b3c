#include "transfer/protocol/graph.hpp"

#include "platform/clock.hpp"
#include "transfer/receive.hpp"
#include "transfer/send.hpp"

namespace gpurun::transfer {

using base::Result;
using base::Status;
namespace wait_report = platform::wait_report;

namespace {

constexpr int64_t kMappedWithinNs = 30'000'000'000;

base::Error missed_capture() {
    return {Status::kStream, "the capture in which the receive was started ended before the receive was completed, so "
                             "it is part of no graph"};
}

} // namespace

Result<Posted> GraphSend::post(Send& send) {
    if (!send.operand().captured())
        return Posted::kNot;
    GraphPart& part = send.target().part<GraphPart>();
    room_.reset();
    GPURUN_ASSIGN(const std::optional<GraphPart::Sent> sent, part.send(send));
    if (!sent) {
        room_ = part.next_room();
        return Posted::kNoRoom;
    }
    if (sent->awaits_taken && send.ends_in_stream())
        GPURUN_TRY(send.resources().captured_exchange.await_taken(sent->channel, send.operand().stream));
    else if (sent->awaits_taken)
        awaits_taken_ = sent->channel;
    send.finish();
    return Posted::kYes;
}

Result<void> GraphSend::complete_captured(Send& send, device::Stream stream) {
    GPURUN_ASSIGN(const bool in_capture, send.device().is_captured(stream)); // else it has ended without this
    if (!in_capture)
        return {};
    if (stream != send.operand().stream) { // not before the graph has read the buffer, and counted its run
        GPURUN_TRY(send.resources().captured_exchange.launch());
        GPURUN_TRY(send.resources().pools.captures.order(send.operand().stream, stream));
    }
    if (!awaits_taken_)
        return {};
    return send.resources().captured_exchange.await_taken(*std::exchange(awaits_taken_, std::nullopt), stream);
}

Result<void> GraphReceive::start(Receive& receive, const Arrival& arrival) {
    arrived_ = {arrival.record.as<CapturedMessage>(), std::nullopt};
    if (arrival.payload.size() == sizeof(RemoteBuffer))
        std::memcpy(&arrived_->answer.emplace(), arrival.payload.data(), sizeof(RemoteBuffer));
    envelope_ = arrival.record.envelope;
    receive.trace().chosen(GraphPart::route_of(arrived_->message.way));
    mapped_by_ns_ = platform::now_ns() + kMappedWithinNs;
    if (receive.missed_capture())
        return missed_capture();
    return map_and_enqueue(receive);
}

Activity GraphReceive::activity(const Receive&) const { return Activity::kInDoubt; }

Result<void> GraphReceive::advance(Receive& receive) { return map_and_enqueue(receive); }

// If an old mapping has to be closed first, which waits for the device, this waits until no graph runs (Quiescence).
Result<void> GraphReceive::map_and_enqueue(Receive& receive) {
    GraphPart& part = receive.source().part<GraphPart>();
    GPURUN_ASSIGN(mapped_, part.map_source(*arrived_, receive.bytes(), platform::now_ns() > mapped_by_ns_));
    if (!mapped_)
        return {};
    if (!receive.ends_in_stream()) {
        receive.leave_to_capture();
        return {};
    }
    if (may_be_left(receive)) {
        receive.leave_to_completion();
        return {};
    }
    return enqueue_left(receive, std::nullopt);
}

// In words: they come as the source puts them. In its place: it is read before anything of this rank's is written over.
bool GraphReceive::may_be_left(const Receive& receive) const {
    const bool in_words = arrived_->message.way == CapturedMessage::Way::kInChannel && receive.bytes() != 0;
    const bool fits = receive.bytes() != 0 ? receive.operand().by_device() : arrived_->answer.has_value();
    return receive.resources().captured_exchange.can_reduce() && fits && !receive.source().to_self() &&
           (in_words ? receive.is_kept_mail() : receive.is_kept());
}

Result<void> GraphReceive::enqueue_left(Receive& receive, std::optional<device::Stream> stream) {
    const GraphPart::Arrived arrived = *std::exchange(arrived_, std::nullopt);
    GPURUN_TRY(receive.source().part<GraphPart>().receive(receive, arrived, envelope_,
                                                          stream.value_or(receive.operand().stream)));
    receive.finish();
    return {};
}

Result<CapturedExchange::Operand> GraphReceive::hand_over_captured(Receive& receive, device::Stream stream) {
    const GraphPart::Arrived arrived = *std::exchange(arrived_, std::nullopt);
    GPURUN_ASSIGN(const GraphPart::Taken taken,
                  receive.source().part<GraphPart>().open(receive, arrived, envelope_, stream));
    answered_ = taken.answer != nullptr;
    return CapturedExchange::Operand{taken.channel, taken.from, receive.operand().address, taken.answer};
}

// What is kept is waited for by a collective, which knows when its source goes on.
bool GraphReceive::holds_up_source(const Receive& receive) const {
    return arrived_ && !arrived_->message.waits_for_nobody() && !receive.is_kept();
}

// Where it is completed, if its source has put it whatever this rank waits for before that. Else in a branch of the
// capture, from its start: the source may wait for its end before it sends what this rank waits for first.
Result<void> GraphReceive::enqueue_started(Receive& receive, const GraphPart::Arrived& arrived, device::Stream stream) {
    GraphPart& part = receive.source().part<GraphPart>();
    CapturePool& captures = receive.resources().pools.captures;
    const device::Stream start_in = receive.operand().stream;
    const auto& start = receive.captured_start();
    const bool in_place = arrived.message.waits_for_nobody() || !start;
    auto in = in_place ? Result<device::Stream>(stream) : captures.take_branch();
    auto begun = in && start && *in != start_in ? receive.device().await_event(*in, *start) : Result<void>();
    if (!in || !begun) {
        part.tell_ended(receive.serial_of_send());
        return in ? std::move(begun) : std::move(in).error();
    }
    auto received = part.receive(receive, arrived, envelope_, *in);
    if (in_place)
        return received;
    GPURUN_TRY(captures.order(*in, stream)); // also of one that has failed: a capture fails if a branch does not join
    return received;
}

void GraphReceive::enqueue_captured(Receive& receive, device::Stream stream) {
    if (!arrived_)
        return;
    const GraphPart::Arrived arrived = *std::exchange(arrived_, std::nullopt);
    if (receive.source().lost())
        receive.fail({Status::kPeerLost, "the other rank died before the message had become part of a graph"});
    else if (auto enqueued = enqueue_started(receive, arrived, stream); !enqueued)
        receive.fail(std::move(enqueued).error());
}

void GraphReceive::capture_missed(Receive& receive) {
    if (arrived_)
        receive.fail(missed_capture());
}

void GraphReceive::give_up(Receive& receive) {
    if (arrived_)
        receive.source().part<GraphPart>().tell_ended(receive.serial_of_send());
    arrived_.reset();
}

void GraphReceive::describe(const Receive&, wait_report::Entry& entry) const {
    entry.state = wait_report::State::kDevice;
}

} // namespace gpurun::transfer
