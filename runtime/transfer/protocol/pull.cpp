#include "transfer/protocol/pull.hpp"

#include "base/log.hpp"
#include "transfer/protocol/exchanged_sends.hpp"
#include "transfer/receive.hpp"
#include "transfer/send.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;
using device::Placement;
namespace wait_report = platform::wait_report;

namespace {

constexpr Route kSameDevice{PullPart::kProtocol, 0};
constexpr Route kPeerAccess{PullPart::kProtocol, 1};
constexpr Route kForced{PullPart::kProtocol, 2};
constexpr Route kToSelf{PullPart::kProtocol, 3};
constexpr Route kOfNoBytes{PullPart::kProtocol, 4};
constexpr Route kBounced{PullPart::kProtocol, 5};

// Finish: the target has pulled, or has enqueued the copy.
struct Finish {
    Route route;
    bool has_signalled; // the backward edge's signal is made or enqueued
    bool answered;      // so is the answer, before that
    uint64_t bytes;     // that are read; 0: the source need not wait for the target
};

// Whether one engine, or the CPU, reaches both buffers of a message of the rank's to itself.
bool one_engine_reaches(const RemoteBuffer& source, const Operand& into) {
    if (source.placement == Placement::kElsewhere || into.on_other_device())
        return false;
    const bool pageable = source.placement == Placement::kPageable || into.where.placement == Placement::kPageable;
    return (source.in_host_memory() && into.in_host_memory()) || !pageable;
}

std::optional<Route> find_direct(Receive& receive, const RemoteBuffer& source, uint64_t bytes, NotPulled& why_not) {
    const base::PathChoice forced = receive.resources().settings.path;
    Registration& memory = receive.source().memory();
    const auto not_pulled = [&](NotPulled why) {
        why_not = why;
        return std::nullopt;
    };
    if (forced == base::PathChoice::kStaged)
        return not_pulled(NotPulled::kStagedForced);
    if (!receive.source().channel().shares_memory())
        return not_pulled(NotPulled::kNoSharedMemory);
    const Reach reach = memory.reach();
    if (!is_direct(reach))
        return not_pulled(reach == Reach::kNoPeerAccess ? NotPulled::kNoPeerAccess : NotPulled::kProbeFailed);
    if (forced == base::PathChoice::kBounce)
        return not_pulled(NotPulled::kBounceForced);
    const bool is_forced = forced == base::PathChoice::kDirect;
    if (source.exporter != Exporter::kSender)
        return not_pulled(is_forced ? NotPulled::kForcedButNotExportable : NotPulled::kNotExportable);
    if (!is_forced && reach == Reach::kPeerAccess && !memory.worth_mapping(source, bytes))
        return not_pulled(NotPulled::kNotYetMapped);
    if (!memory.maps(source))
        return not_pulled(NotPulled::kNotMapped);
    return is_forced ? kForced : reach == Reach::kSameDevice ? kSameDevice : kPeerAccess;
}

// Of a message that brings no bytes, but the place for an answer.
bool may_write_there(Receive& receive) {
    const base::PathChoice path = receive.resources().settings.path;
    return (path == base::PathChoice::kAuto || path == base::PathChoice::kDirect) &&
           receive.source().channel().shares_memory() && is_direct(receive.source().memory().reach());
}

} // namespace

void PullPart::on_notice(const Record& notice) {
    const auto told = notice.as<AllocationNotice>();
    if (told.what == AllocationNotice::What::kUnmapped) {
        resources_.exports.answered(told.id, peer_.rank().value, told.question);
        return;
    }
    peer_.memory().revoke(told.id);
    if (told.what == AllocationNotice::What::kUnmap) {
        asked_.push_back({told.id, told.question});
        ++resources_.unmapping;
    }
    peer_.attend(kProtocol);
}

void PullPart::ask_to_unmap(uint64_t id) {
    const uint64_t question = resources_.exports.ask(id, peer_.rank().value);
    peer_.tell(
        Record(RecordKind::kNotice, kProtocol).with(AllocationNotice{AllocationNotice::What::kUnmap, id, question}));
}

bool PullPart::answer() {
    const size_t answered = std::erase_if(asked_, [&](const Asked& each) {
        if (peer_.memory().has_mapped(each.id))
            return false;
        peer_.tell(Record(RecordKind::kNotice, kProtocol)
                       .with(AllocationNotice{AllocationNotice::What::kUnmapped, each.id, each.question}));
        return true;
    });
    resources_.unmapping -= answered;
    return answered != 0;
}

// What is borrowed stays mapped until it is given back, and what streams read until they have.
void PullPart::lose(const base::Error&) {
    resources_.unmapping -= asked_.size();
    asked_.clear();
    peer_.memory().revoke_all();
    peer_.attend(kProtocol);
}

bool PullPart::progress() {
    auto swept = peer_.memory().sweep();
    if (!swept)
        base::log(base::LogLevel::kWarn, "unmapping memory of rank {}: {}", peer_.rank().value, swept.error().detail);
    const bool answered = answer();
    return answered || (swept && *swept);
}

std::optional<Route> find_pull(Receive& receive, const ReadyToSend& ready, uint64_t message_bytes, NotPulled& why_not) {
    const Operand& into = receive.operand();
    const RemoteBuffer& source = ready.source;
    const bool moves_nothing = std::min<uint64_t>(message_bytes, into.bytes) == 0; // but the order
    if (receive.source().to_self())
        return moves_nothing || one_engine_reaches(source, into) ? std::optional(kToSelf) : std::nullopt;
    if (moves_nothing)
        return kOfNoBytes;
    const bool is_reached = into.by_device() && (into.on_stream() || !into.in_host_memory());
    if (source.in_host_memory() || source.placement == Placement::kElsewhere || !is_reached)
        return std::nullopt;
    const auto direct = find_direct(receive, source, message_bytes, why_not);
    return direct && source.bounces ? std::optional(kBounced) : direct;
}

// ------------------------------------------------------------------------------------------------------- source

namespace {

Result<void> await_target(Send& send, Fence& fence) {
    const device::Stream stream = send.operand().stream;
    if (transfer::joins_exchange(send) &&
        send.resources().exchanges.await({&fence.counter(Edge::kBackward, send.edge()), send.edge().value}, stream))
        return {};
    send.resources().exchanges.launch();
    return await_in_stream(send.resources(), fence, Edge::kBackward, send.edge(), stream);
}

} // namespace

bool PullSend::joins_exchange(const Send& send) const { return transfer::joins_exchange(send); }

Result<void> PullSend::on_record(Send& send, const Record& record) {
    const auto finish = record.as<Finish>();
    Peer& target = send.target();
    send.note_matched();
    send.count(finish.route);
    if (finish.has_signalled)
        target.part<RendezvousPart>().settle(send.edge(), Edge::kBackward);
    if (finish.bytes == 0 &&
        !finish.answered) // but the slot is in use until the target has signalled the backward edge
        return end_without_bytes(send);
    if (finish.answered)
        send.note_answer_written();
    GPURUN_ASSIGN(Fence * fence, target.fence_out());
    if (send.bounce().taken()) {
        send.bounce().leave(CompletionPoint::at(*fence, Edge::kBackward, send.edge()));
        send.end_at(CompletionPoint::at(*fence, Edge::kForward, send.edge()));
        return {};
    }
    if (send.ends_in_stream()) {
        GPURUN_TRY(await_target(send, *fence));
        target.awaiting_backward.note(send.edge(), send.operand().stream);
    }
    send.end_at(CompletionPoint::at(*fence, Edge::kBackward, send.edge()));
    return {};
}

// ------------------------------------------------------------------------------------------------------- target

Result<void> PullReceive::start(Receive& receive, const Arrival& arrival) {
    ready_ = arrival.record.as<ReadyToSend>();
    route_ = arrival.route;
    receive.count(route_, arrival.record.envelope.bytes);
    if (arrival.payload.size() == sizeof(RemoteBuffer) && (receive.bytes() != 0 || may_write_there(receive)))
        std::memcpy(&answer_.emplace(), arrival.payload.data(), sizeof(RemoteBuffer));
    // Nobody signals a loan's edge backward.
    const bool has_both_edges = ready_.edge.valid && ready_.edge.slots != SlotClass::kLoan;
    return has_both_edges ? leave_or_pull(receive) : want_edge(receive);
}

Result<void> PullReceive::leave_or_pull(Receive& receive) {
    if (!may_be_left(receive))
        return pull(receive);
    set_slot(ready_.edge);
    if (receive.ends_by_completion())
        GPURUN_TRY(receive.work().set_marker());
    receive.leave_to_completion();
    return {};
}

// For a kernel that reads the source's buffer as it reduces, or, of a request, for the kernel of what is completed
// together.
bool PullReceive::may_be_left(const Receive& receive) const {
    const Resources& resources = receive.resources();
    const bool for_completion = resources.leaves_series && receive.ends_by_completion();
    return (receive.is_kept() || for_completion) && (receive.bytes() != 0 || answer_) && !receive.source().to_self() &&
           resources.fenced_copies != nullptr && resources.left.size() < resources.most_left();
}

bool PullReceive::holds_up_source(const Receive& receive) const { return !receive.is_kept(); }

Result<void> PullReceive::enqueue_left(Receive& receive, std::optional<device::Stream>) { return pull(receive); }

Result<bool> PullReceive::begin_left(Receive& receive) {
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    GPURUN_ASSIGN(const bool ready, fence->reached_alive(Edge::kForward, slot()));
    if (!ready)
        return false;
    GPURUN_ASSIGN(const bool passed, receive.is_marker_passed());
    if (!passed)
        return false;
    begin_early();
    GPURUN_TRY(pull(receive));
    return true;
}

Result<device::FusedReduction::Operand> PullReceive::hand_over(Receive& receive, device::Stream stream) {
    Registration& memory = receive.source().memory();
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    GPURUN_ASSIGN(ImportCache * imports, memory.imports());
    GPURUN_TRY(receive.note_dependence(*fence, slot(), stream));
    device::FusedReduction::Operand operand;
    if (receive.bytes() != 0) {
        GPURUN_ASSIGN(operand.buffer, imports->address(ready_.source, slot()));
    }
    if (answer_ && memory.maps(*answer_)) {
        GPURUN_ASSIGN(const std::byte* answer, imports->address(*answer_, slot()));
        operand.answer = const_cast<std::byte*>(answer);
    }
    if (memory.has_to_unmap())
        receive.source().attend(kProtocol);
    const WorkspaceView& workspace = receive.resources().workspace.view();
    const uint32_t source = receive.source().rank().value;
    operand.ready = &fence->counter(Edge::kForward, slot());
    operand.read = &fence->counter(Edge::kBackward, slot());
    operand.value = slot().value;
    operand.ticket = workspace.ticket(source, Side::kTarget, slot());
    operand.gate = workspace.gate(source, slot());
    operand.times = receive.trace().times(receive.resources().trace);
    answered_ = operand.answer != nullptr;
    tell(receive, true);
    return operand;
}

void PullReceive::tell(Receive& receive, bool has_signalled) {
    Record finish(RecordKind::kToSend, kProtocol, receive.serial_of_send());
    finish.with(Finish{route_, has_signalled, answered_, receive.bytes()});
    // A pulled message needs nothing more of its source, but others may wait there for its slot.
    receive.source().tell(finish, info_of(ready_.edge.slots).announced ? Notify::kAlways : Notify::kIfSleeping);
}

std::optional<CompletionPoint> PullReceive::blocked_on(const Receive& receive) const {
    if (!receive.is_left())
        return EdgeCopy::blocked_on(receive);
    return CompletionPoint::at(*receive.source().channel().open_fence(Direction::kIn), Edge::kForward, slot());
}

Result<void> PullReceive::want_edge(Receive& receive) {
    if (receive.source().lost())
        return base::Error{base::Status::kPeerLost, "the other rank died before the message had moved"};
    if (receive.ends_by_completion())
        GPURUN_TRY(receive.work().set_marker());
    Record question(RecordKind::kToSend, RendezvousPart::kProtocol, receive.serial_of_send());
    receive.source().tell(question.with(WantEdge{receive.serial(), kProtocol}));
    wants_edge_ = true;
    return {};
}

Result<void> PullReceive::on_record(Receive& receive, const Record& record) {
    ready_.edge = record.as<Slot>();
    wants_edge_ = false;
    return leave_or_pull(receive);
}

Result<void> PullReceive::pull(Receive& receive) {
    From from;
    if (receive.bytes() != 0 && receive.source().to_self()) {
        from.address = reinterpret_cast<const std::byte*>(ready_.source.address);
        from.in_host_memory = ready_.source.in_host_memory();
        from.by_device = ready_.source.placement != Placement::kPageable;
    } else if (receive.bytes() != 0) {
        GPURUN_ASSIGN(ImportCache * imports, receive.source().memory().imports());
        GPURUN_ASSIGN(from.address, imports->address(ready_.source, ready_.edge));
        from.in_host_memory = false;
        from.by_device = true;
        from.in_host_order = ready_.stream == 0;
        if (imports->has_to_close()) // its source has died, perhaps
            receive.source().attend(kProtocol);
    }
    GPURUN_TRY(copy(receive, from, ready_.edge, receive.bytes() != 0));
    tell(receive, has_signalled());
    return {};
}

Activity PullReceive::activity(const Receive& receive) const {
    return wants_edge_ ? Activity::kIdle : EdgeCopy::activity(receive);
}

Result<void> PullReceive::advance(Receive& receive) {
    return wants_edge_ ? Result<void>() : EdgeCopy::advance(receive);
}

void PullReceive::describe(const Receive&, wait_report::Entry& entry) const {
    if (wants_edge_)
        entry.state = wait_report::State::kWantsEdge;
}

} // namespace gpurun::transfer
