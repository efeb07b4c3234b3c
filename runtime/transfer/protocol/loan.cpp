#include "transfer/protocol/loan.hpp"

#include "base/format.hpp"
#include "transfer/receive.hpp"
#include "transfer/send.hpp"

namespace gpurun::transfer {

using base::Result;
using base::Status;
namespace wait_report = platform::wait_report;

// ------------------------------------------------------------------------------------------------------- lender

base::Error cannot_be_lent(const Peer& to) {
    const base::WorldRank target = to.rank();
    if (!to.channel().shares_memory())
        return base::error(Status::kUnsupported, "memory cannot be lent to rank {}, which is on another node: send it",
                           target.value);
    return base::error(
        Status::kUnsupported,
        "this memory cannot be lent, since it cannot be exported to rank {} (GPURUN_LOG=warn tells why): "
        "lend memory of gpurun_malloc(), gpurun_malloc_host() or cudaMalloc(), or send it",
        target.value);
}

Result<Posted> LoanSend::post(Send& send) {
    if (!prepared_)
        GPURUN_TRY(prepare(send));
    if (send.lends_on() != nullptr && !tell_lender(*send.lends_on()))
        return Posted::kNoRoom;
    Record record(RecordKind::kMessage, kProtocol, send.serial());
    record.envelope = send.envelope();
    ready_.edge = send.edge();
    return send.publish(record.with(ready_)) ? Posted::kYes : Posted::kNoRoom;
}

// False if there is no room: all of it has to be posted before the loan is.
bool LoanSend::tell_lender(const Borrowing& borrowed) {
    for (; told_ < borrowed.parts.size() && !borrowed.lender->lost(); ++told_) {
        Record record(RecordKind::kToSend, kProtocol, borrowed.serial);
        const LoanAnswer answer{LoanAnswer::What::kLentOn, {}, borrowed.parts[told_].lent.allocation_id};
        if (!borrowed.lender->channel().post(record.with(answer), {}, Notify::kIfSleeping))
            return false;
    }
    return true;
}

Result<void> LoanSend::prepare(Send& send) {
    Peer& target = send.target();
    const Operand& lent = send.operand();
    const Borrowing* const borrowed = send.lends_on();
    const Borrowing::Part* const part = borrowed != nullptr ? borrowed->find(lent.address, lent.bytes) : nullptr;
    ready_.source = part != nullptr ? Borrowing::describe(*part, lent.address) : target.memory().describe_lent(lent);
    ready_.source.loan = send.loan();
    ready_.source.ready = !lent.on_stream();
    ready_.origin = send.origin();
    const bool may_copy = send.loan().kind == LoanKind::kReadOrCopy && target.channel().shares_memory();
    if (!ready_.source.exportable() && !target.to_self() && send.operand().bytes != 0 && !may_copy)
        return cannot_be_lent(target);
    GPURUN_ASSIGN(ready_.stream, send.work().stream_name());
    prepared_ = true;
    if (ready_.source.ready) // a receive asks for an edge
        return {};
    GPURUN_ASSIGN(Fence * fence, target.fence_out());
    GPURUN_TRY(send.take_stream(false));
    GPURUN_ASSIGN(const uint64_t name, send.device().name(send.operand().stream));
    GPURUN_ASSIGN(const std::optional<Slot> slot, target.part<LoanPart>().take_slot(*fence, name));
    if (!slot)
        return send.set_marker();
    GPURUN_TRY(signal_ready(send, *fence, *slot));
    send.work().finish(InternalStreams::State::kRunning, {}); // a loan may be open for long
    return {};
}

Result<void> LoanSend::on_record(Send& send, const Record& record) {
    const auto answer = record.as<LoanAnswer>();
    switch (answer.what) {
    case LoanAnswer::What::kBorrowed:
        send.note_borrowed();
        send.count(kBorrowed);
        return {};
    case LoanAnswer::What::kWithdrawn: send.withdraw(); return {};
    case LoanAnswer::What::kLentOn:
        send.note_lent_on();
        send.resources().exports.note_lent_on(answer.allocation_id);
        return {};
    case LoanAnswer::What::kGivenBack: break;
    }
    if (!answer.edge.valid) {
        send.finish();
        return {};
    }
    back_ = answer.edge;
    GPURUN_ASSIGN(Fence * fence, send.target().fence_in());
    send.end_at(CompletionPoint::at(*fence, Edge::kForward, back_));
    return {};
}

Result<bool> LoanSend::complete_into(Send& send, device::Stream stream) {
    GPURUN_ASSIGN(Fence * fence, send.target().fence_in());
    GPURUN_TRY(await_in_stream(send.resources(), *fence, Edge::kForward, back_, stream));
    if (!send.target().lost())
        send.target().awaiting_forward.note(back_, stream);
    return true;
}

void LoanSend::describe(const Send& send, wait_report::Entry& entry) const {
    entry.state = send.matched() ? wait_report::State::kLent : wait_report::State::kUnmatched;
}

// ----------------------------------------------------------------------------------------------------- borrower

Result<void> LoanReceive::start(Receive& receive, const Arrival& arrival) {
    const auto ready = arrival.record.as<ReadyToSend>();
    edge_ = ready.edge;
    receive.count(arrival.route, arrival.record.envelope.bytes);
    if (edge_.valid)
        return await_lender(receive);
    if (ready.source.ready) {
        receive.finish();
        return {};
    }
    if (receive.source().lost())
        return base::Error{Status::kPeerLost, "the lender died before the loan was borrowed"};
    Record question(RecordKind::kToSend, RendezvousPart::kProtocol, receive.serial_of_send());
    receive.source().tell(question.with(WantEdge{receive.serial(), kProtocol}));
    wants_edge_ = true;
    return {};
}

Result<void> LoanReceive::on_record(Receive& receive, const Record& record) {
    edge_ = record.as<Slot>();
    wants_edge_ = false;
    return await_lender(receive);
}

Result<void> LoanReceive::await_lender(Receive& receive) {
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    if (!receive.operand().on_stream()) {
        waits_ = true;
        return advance(receive);
    }
    const device::Stream stream = receive.operand().stream;
    GPURUN_TRY(receive.depend_on(*fence, edge_, stream));
    GPURUN_TRY(await_in_stream(receive.resources(), *fence, Edge::kForward, edge_, stream));
    receive.finish();
    return {};
}

Activity LoanReceive::activity(const Receive&) const { return waits_ ? Activity::kWaiting : Activity::kIdle; }

Result<void> LoanReceive::advance(Receive& receive) {
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    GPURUN_ASSIGN(const bool ready, fence->reached_alive(Edge::kForward, edge_));
    if (ready)
        receive.finish();
    return {};
}

std::optional<CompletionPoint> LoanReceive::blocked_on(const Receive& receive) const {
    if (!waits_)
        return std::nullopt;
    return CompletionPoint::at(*receive.source().channel().open_fence(Direction::kIn), Edge::kForward, edge_);
}

void LoanReceive::describe(const Receive&, wait_report::Entry& entry) const {
    if (wants_edge_)
        entry.state = wait_report::State::kWantsEdge;
}

} // namespace gpurun::transfer
