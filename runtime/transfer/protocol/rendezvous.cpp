#include "transfer/protocol/rendezvous.hpp"

#include "transfer/protocol/exchanged_sends.hpp"
#include "transfer/protocol/mailbox.hpp"
#include "transfer/send.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;
namespace wait_report = platform::wait_report;

namespace {

Result<void> enqueue_bounce(Send& send, Fence& fence, const Slot& slot) {
    Resources& resources = send.resources();
    uint32_t* const ticket = resources.workspace.view().ticket(send.target().rank().value, Side::kSource, slot);
    device::FencedCopy copy = send.bounce().make(fence, slot, ticket);
    copy.times = send.stream_times();
    send.note_own_stream();
    if (!joins_exchange(send))
        return resources.fenced_copies->copy_fenced(copy, send.operand().stream);
    resources.exchanges.copy_out(copy, send.operand().stream);
    return {};
}

} // namespace

Result<void> signal_ready(Send& send, Fence& fence, const Slot& slot) {
    send.set_edge(slot);
    if (!send.operand().on_stream()) {
        fence.signal_now(Edge::kForward, slot);
        return {};
    }
    GPURUN_TRY(send.take_stream(true));
    const device::Stream stream = send.operand().stream;
    if (send.bounce().taken())
        return enqueue_bounce(send, fence, slot);
    if (!signals_in_exchange(send))
        return fence.signal(Edge::kForward, slot, stream);
    send.resources().exchanges.signal({&fence.counter(Edge::kForward, slot), slot.value}, stream);
    return {};
}

namespace {

// A borrower never signals the backward edge.
Result<void> give_edge_of_loan(Send& send, Fence& fence, const Slot& slot, ProtocolId wanted_by) {
    if (send.operand().on_stream() && send.edge().valid) // the program's stream may be gone by now
        GPURUN_TRY(send.work().take_behind(fence, Edge::kForward, send.edge()));
    GPURUN_TRY(signal_ready(send, fence, slot));
    if (wanted_by == kLoanProtocol) {
        send.target().part<RendezvousPart>().settle(slot, Edge::kForward);
        send.work().finish(InternalStreams::State::kRunning, {});
    }
    return {};
}

// In one piece: messages in a stream, between ranks that map each other's memory. Longer ones go faster in chunks, of
// which one side copies some while the other copies others.
bool may_bounce(Send& send) {
    constexpr size_t kLongest = size_t{4} << 20;
    const Operand& operand = send.operand();
    const base::Settings& settings = send.resources().settings;
    const bool may_be_pulled = settings.path == base::PathChoice::kAuto || settings.path == base::PathChoice::kDirect;
    return may_be_pulled && operand.on_stream() && operand.by_device() && operand.bytes != 0 &&
           operand.bytes <= std::min(kLongest, settings.kernel_copy_bytes) &&
           send.resources().fenced_copies != nullptr && !send.target().to_self() &&
           send.target().part<MailboxPart>().open();
}

bool owes_edge(const Send& send) { return base::List<Send, Queued>::has(send); }

} // namespace

// ----------------------------------------------------------------------------------------------------- the part

Result<std::optional<Slot>> RendezvousPart::take_late_slot(Fence& fence) {
    GPURUN_ASSIGN(const std::optional<Slot> slot, slots_.take(fence));
    return slot ? Result<std::optional<Slot>>(slot) : late_slots_.take(fence);
}

std::optional<CompletionPoint> RendezvousPart::next_late_slot() const {
    Fence* const fence = peer_.channel().open_fence(Direction::kOut);
    return fence == nullptr ? std::nullopt : late_slots_.next_free(*fence);
}

void RendezvousPart::settle(const Slot& slot, Edge last) {
    if (slot.slots == SlotClass::kLoan)
        return; // LoanSlots has it
    (slot.slots == SlotClass::kLateEdge ? late_slots_ : slots_).settle(slot, last);
}

void RendezvousPart::owe_edge(Send& send) {
    owing_.push_back(send);
    peer_.attend(kProtocol);
}

void RendezvousPart::forget(Send& send) { owing_.remove(send); }

const Operation* RendezvousPart::first_waiting() const { return owing_.front(); }

bool RendezvousPart::progress() {
    bool any = false;
    while (Send* const send = owing_.front()) {
        auto given = static_cast<RendezvousSend*>(send->state())->give_edge(*send);
        if (given && !*given)
            break;
        owing_.remove(*send);
        if (!given)
            send->fail(std::move(given).error());
        any = true;
    }
    return any;
}

// ------------------------------------------------------------------------------------------------------- source

Result<Posted> RendezvousSend::post(Send& send) {
    if (!prepared_)
        GPURUN_TRY(prepare(send));
    Record record(RecordKind::kMessage, kProtocol, send.serial());
    record.envelope = send.envelope();
    ready_.edge = send.edge();
    const auto answer = answer_ ? std::as_bytes(std::span(&*answer_, 1)) : std::span<const std::byte>();
    return send.publish(record.with(ready_), answer) ? Posted::kYes : Posted::kNoRoom;
}

Result<void> RendezvousSend::prepare(Send& send) {
    Peer& target = send.target();
    ready_.source = target.memory().describe(send.operand());
    if (!ready_.source.exportable() && may_bounce(send) &&
        send.bounce().take(send.resources().pools.bounces, send.operand())) {
        ready_.source = target.memory().describe(send.operand());
        ready_.source.bounces = true;
    }
    GPURUN_ASSIGN(ready_.stream, send.work().stream_name());
    if (send.place_of_answer() && !send.bounce().taken() && may_be_reduced(send)) // else its stream goes on before that
        if (const RemoteBuffer answer = target.memory().describe(*send.place_of_answer()); answer.exportable())
            answer_ = answer;
    prepared_ = true;
    // A message that the target might pull needs an edge that says when its bytes are ready.
    // So do a message without bytes, which is only order, and a request on a stream, which goes on.
    const bool needs_edge =
        ready_.source.exportable() || target.to_self() || send.operand().bytes == 0 || send.ends_by_completion();
    if (!needs_edge)
        return {};
    GPURUN_ASSIGN(Fence * fence, target.fence_out());
    GPURUN_ASSIGN(const std::optional<Slot> slot, target.part<RendezvousPart>().take_slot(*fence));
    // Without a slot it is posted all the same: the receiver may want it before those that hold the slots.
    return slot ? signal_ready(send, *fence, *slot) : send.set_marker();
}

Result<void> RendezvousSend::on_record(Send& send, const Record& record) {
    send.note_matched();
    wanted_ = record.as<WantEdge>();
    send.target().part<RendezvousPart>().owe_edge(send);
    return {};
}

Result<bool> RendezvousSend::give_edge(Send& send) {
    GPURUN_ASSIGN(Fence * fence, send.target().fence_out());
    GPURUN_ASSIGN(const std::optional<Slot> slot, send.target().part<RendezvousPart>().take_late_slot(*fence));
    if (!slot)
        return false;
    if (send.lends())
        GPURUN_TRY(give_edge_of_loan(send, *fence, *slot, wanted_.protocol));
    else
        GPURUN_TRY(signal_ready(send, *fence, *slot));
    Record record(RecordKind::kToReceive, wanted_.protocol, wanted_.receive);
    send.target().tell(record.with(*slot));
    return true;
}

Activity RendezvousSend::activity(const Send& send) const {
    return owes_edge(send) ? Activity::kQueued : Activity::kIdle;
}

std::optional<CompletionPoint> RendezvousSend::blocked_on(const Send& send) const {
    return owes_edge(send) ? send.target().part<RendezvousPart>().next_late_slot() : std::nullopt;
}

void RendezvousSend::give_up(Send& send) { send.target().part<RendezvousPart>().forget(send); }

void RendezvousSend::describe(const Send& send, wait_report::Entry& entry) const {
    if (owes_edge(send))
        entry.state = wait_report::State::kWantsEdge;
    else
        entry.state = send.lends() && send.matched() ? wait_report::State::kLent : wait_report::State::kUnmatched;
}

Result<void> end_without_bytes(Send& send) {
    if (send.edge().valid && send.ends_by_completion()) {
        GPURUN_ASSIGN(Fence * fence, send.target().fence_out());
        send.end_at(CompletionPoint::at(*fence, Edge::kForward, send.edge()));
        return {};
    }
    return send.end_in_place();
}

} // namespace gpurun::transfer
