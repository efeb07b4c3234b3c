#include "transfer/send.hpp"

namespace gpurun::transfer {

using base::Result;
namespace wait_report = platform::wait_report;
namespace flags = platform::trace_flags;

Send::Send(Resources& resources, Peer& target, const Operand& operand, const Envelope& envelope, const Mode& mode)
    : OperationBy(resources, operand, mode.ending), envelope_(envelope), signature_(mode.signature),
      answer_(mode.answer), synchronous_(mode.synchronous), reduced_(mode.reduced), beside_(mode.beside),
      loan_(mode.loan), origin_(mode.origin), lends_on_(mode.lent_on) {
    set_peer(target);
    if (operand.captured())
        envelope_.context |= kCapturedContexts;
    trace().begin(resources.trace,
                  {.kind = platform::TraceKind::kSend,
                   .peer = static_cast<int>(target.rank().value),
                   .marks = mode.synchronous ? flags::kSynchronous : 0,
                   .call = mode.call},
                  envelope_, operand, mode.ending);
}

// ------------------------------------------------------------------------------------------------- for the engine

void Send::start() {
    set_active();
    target().unposted.push_back(*this);
    (void)post_waiting(target());
    if (!base::List<Send, Unposted>::has(*this))
        return;
    trace().held_up();
    if (auto marked = set_marker(); !marked)
        fail(std::move(marked).error());
}

void Send::defer(uint64_t series) {
    set_active();
    series_ = series;
    if (auto marked = set_marker(); !marked)
        fail(std::move(marked).error());
    else
        target().unposted.push_back(*this);
}

bool post_waiting(Peer& peer) {
    bool any = false;
    while (Send* const send = peer.unposted.front()) {
        if (!send->post_again())
            break;
        any = true;
    }
    return any;
}

void post_in_stream(Peer& peer, uint64_t series) {
    const auto each_held = [&](auto&& act) {
        peer.unposted.for_each([&](Send& each) {
            if (each.series_ == series)
                act(each);
        });
    };
    each_held([](Send& each) { each.work().give_marker_back(); });
    (void)post_waiting(peer);
    each_held([](Send& each) {
        if (auto marked = each.set_marker(); !marked)
            each.fail(std::move(marked).error());
    });
}

void Send::enter(ProtocolId protocol) {
    protocol_ = protocol;
    resources().protocols[protocol].make_send(holder());
}

Result<Posted> Send::post() {
    // One that has found no room in the ring stays with its protocol.
    const ProtocolTable& protocols = resources().protocols;
    const ProtocolId first = lends() ? kLoanProtocol : 0;
    for (ProtocolId each = state() == nullptr ? first : protocol_; each < protocols.rows.size(); ++each) {
        if (!protocols[each].begins)
            continue;
        if (state() == nullptr || each != protocol_)
            enter(each);
        auto posted = state()->post(*this);
        if (!posted || *posted != Posted::kNot)
            return posted;
    }
    GPURUN_ASSERT(!"the last protocol that begins messages takes all");
    return Posted::kNot;
}

// False if there is no room.
bool Send::post_again() {
    auto posted = post();
    if (posted && *posted == Posted::kNoRoom)
        return false;
    target().unposted.remove(*this);
    settle(posted ? Result<void>() : Result<void>(std::move(posted).error()));
    return true;
}

Result<void> Send::on_record(const Record& answer) {
    if (protocol_ != answer.protocol)
        enter(answer.protocol);
    return give(answer);
}

wait_report::Entry Send::describe() const {
    wait_report::Entry entry = Operation::describe(wait_report::What::kSend);
    entry.peer = static_cast<int32_t>(target().rank().value);
    entry.tag = envelope_.tag;
    if (synchronous_)
        entry.flags |= wait_report::kSynchronous;
    if (base::List<Send, Unposted>::has(*this))
        entry.state = wait_report::State::kNoRoom;
    else if (state() != nullptr && phase() == Phase::kActive)
        state()->describe(*this, entry);
    return entry;
}

// ------------------------------------------------------------------------------------------------- for protocols

void Send::note_matched() {
    trace().matched();
    matched_ = true;
}

bool Send::publish(Record& record, Route route) {
    sign(record);
    trace().posting_small();
    // A message that carries its bytes can stay in the ring until its receiver looks.
    if (!target().channel().post(record, {}, Notify::kIfSleeping))
        return false;
    trace().posted(++target().count_out.messages);
    count(route);
    return true;
}

bool Send::publish(Record& record, std::span<const std::byte> payload) {
    sign(record);
    trace().posting();
    if (!target().channel().post(record, payload, Notify::kAlways))
        return false;
    trace().posted(++target().count_out.messages);
    return true;
}

void Send::publish_captured(Record& record, Route route, std::span<const std::byte> payload) {
    sign(record);
    trace().posting();
    target().tell(record, Notify::kAlways, payload);
    trace().posted(++target().count_out.captured);
    count(route);
}

void Send::count(Route route) {
    set_route(route);
    target().sent.count(route, envelope_.bytes);
}

void Send::note_own_stream() {
    if (ends_by_completion() && !work().is_internal())
        if (const auto name = device().name(operand().stream))
            own_stream_ = name.value();
}

Result<void> Send::take_stream(bool waits_for_peer) {
    const bool in_own = operand().on_stream() && !work().has_marker();
    return in_own ? Result<void>() : work().take(waits_for_peer);
}

Result<void> Send::set_marker() {
    const bool goes_on = ends_by_completion() && !operand().captured() && !work().is_internal();
    return goes_on && own_stream_ == 0 && !edge_.valid ? work().set_marker() : Result<void>();
}

// ----------------------------------------------------------------------------------------------- for Operation

Result<void> Send::await_end(const CompletionPoint& end, device::Stream stream) {
    if (own_stream_ != 0) {
        GPURUN_ASSIGN(const uint64_t name, device().name(stream));
        if (name == own_stream_)
            return {}; // the stream itself comes after the message
    }
    GPURUN_TRY(OperationBy::await_end(end, stream));
    if (!end.on_event() && end.edge == Edge::kBackward && !target().lost())
        target().awaiting_backward.note(end.slot, stream);
    return {};
}

Result<void> Send::complete_captured(device::Stream stream) {
    return state() == nullptr ? Result<void>() : state()->complete_captured(*this, stream);
}

} // namespace gpurun::transfer
