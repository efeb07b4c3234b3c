#include "transfer/incoming.hpp"

#include "base/format.hpp"
#include "platform/clock.hpp"
#include "transfer/choose.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;

// The engine has ended it under its lock: nothing points to it any more.
Incoming::~Incoming() {
    CHECK(state_ == State::kDone || state_ == State::kNew || state_ == State::kCaptured);
    if (branch_)
        context_.capture_streams.give_back(*branch_);
}

// As in Outgoing. A relay beside a send stands behind the caller's stream, which then waits for it instead.
void Incoming::fail(base::Error error) {
    if (shared_)
        stop_sharing();
    const bool failed_before = error_.has_value();
    if (!failed_before)
        error_ = std::move(error);
    trace_.failed();
    leave_link();
    if (relay_)
        relay_->give_up(operand_);
    if (shares_kernel_ && state_ == State::kDraining && !failed_before)
        return; // its kernel is told as well, and ends
    if (borrowed_ && !failed_before && context_.releases_streams()) {
        if (join_) {
            (void)context_.joints.order(*borrowed_, *join_);
        } else if (auto end = mark_end()) {
            give_back(end_, context_);
            end_ = *end;
            drain(Awaited::event_of(*end_));
            return;
        }
    }
    finish();
}

// Behind all that is enqueued in internal streams.
Result<device::Event> Incoming::mark_end() {
    if (signals_)
        GPURUN_TRY(context_.joints.order(*borrowed_, *signals_));
    return context_.events.mark(signals_.value_or(*borrowed_));
}

void Incoming::abandon(base::Error error) {
    if (shared_)
        stop_sharing();
    if (!error_)
        error_ = std::move(error);
    trace_.failed();
    if (relay_)
        relay_->give_up(operand_);
    if (borrowed_ && context_.releases_streams())
        for (const device::Stream each : {*borrowed_, signals_.value_or(*borrowed_)})
            (void)context_.device.synchronize(each);
    finish();
}

void Incoming::drain(const Awaited& awaited) {
    awaited_ = awaited;
    state_ = State::kDraining;
}

// All is enqueued, and the last of it copies out of the buffer.
Result<void> Incoming::end_behind(Landing::Buffer& landing) {
    GPURUN_TRY(context_.device.record(landing.copied, operand_.stream));
    landing_ = &landing;
    if (ends_in_stream())
        finish();
    else
        drain(Awaited::event_of(landing.copied));
    return {};
}

void Incoming::leave_link() {
    if (state_ == State::kEdgeless)
        link_->edgeless_in.remove(*this);
    if (state_ == State::kToShare)
        link_->to_share.remove(*this);
    if (state_ == State::kRelay)
        link_->relay_in.remove(*this);
}

Streams::State Incoming::stream_state() const {
    if (error_ && !context_.releases_streams())
        return Streams::State::kStuck;
    return drained_ ? Streams::State::kIdle : Streams::State::kWaiting;
}

void Incoming::tell_trace_of_end() {
    if (ends_in_stream() && !drained_)
        trace_.enqueued_only();
    trace_.ended();
}

void Incoming::finish() {
    leave_link();
    if (captured_)
        link_->channels.refuse(*std::exchange(captured_, nullptr));
    if (borrowed_)
        context_.streams.take_back(*std::exchange(borrowed_, std::nullopt), stream_state(), end_of(context_, awaited_));
    if (landing_ != nullptr && drained_)
        context_.landing.give_back(*std::exchange(landing_, nullptr));
    else if (landing_ != nullptr)
        context_.landing.leave(*std::exchange(landing_, nullptr));
    context_.places.give_back(kept_place_);
    give_back(end_, context_);
    awaited_.reset();
    if (trace_.records()) [[unlikely]]
        tell_trace_of_end();
    state_ = State::kDone;
}

// Nothing is written, but what follows the message still comes after its place in the operand's stream.
Result<void> Incoming::finish_in_order() {
    if (!operand_.on_stream || ends_in_stream()) {
        finish();
        return {};
    }
    if (kept_place_) {
        end_ = context_.places.release(kept_place_);
    } else {
        GPURUN_ASSIGN(end_, context_.events.mark(operand_.stream));
    }
    drain(Awaited::event_of(*end_));
    return {};
}

Result<void> Incoming::join(device::Stream stream) {
    CHECK(enqueued());
    if (branch_)
        return join_branch(stream);
    if (done())
        return {};
    GPURUN_ASSIGN(const bool over, awaited_->is_over(context_.device));
    if (!over) {
        GPURUN_ASSIGN(const bool with_others, context_.mails.await_take(context_, launch_, stream));
        if (!with_others)
            GPURUN_TRY(awaited_->await(context_.device, stream));
        trace_.enqueued_only();
    }
    // What the message still needs of its source, `stream` needs now.
    if (!link_->lost && slot_.valid != 0 && link_->awaiting_forward[slot_.slot].value == slot_.value)
        link_->awaiting_forward[slot_.slot].stream = stream;
    if (borrowed_ && !link_->lost)
        hand_over(link_->awaiting_forward, *borrowed_, stream);
    finish();
    return {};
}

Result<bool> Incoming::survives() const {
    if (state_ != State::kDraining || relay_)
        return false;
    if (slot_.valid == 0)
        return true; // all that was needed of the source has come with its record
    GPURUN_ASSIGN(Fence * fence, link_->in.fence());
    GPURUN_ASSIGN(const bool cut_short, fence->cut_short(Edge::kForward, slot_.slot, slot_.value));
    return !cut_short;
}

Result<void> Incoming::keep_place() {
    if (!operand_.on_stream || ending_ == Ending::kInStream || operand_.by_cpu())
        return {};
    if (operand_.captured)
        return take_branch();
    GPURUN_ASSIGN(kept_place_, context_.places.keep(operand_.stream));
    return {};
}

std::optional<Awaited> Incoming::awaited() const {
    if (state_ == State::kDraining || state_ == State::kBeforeCopy)
        return awaited_;
    if (state_ == State::kRelay && relay_)
        return relay_->blocked_on();
    return std::nullopt;
}

// The stream for the message's work: the operand's own in blocking calls, else one that starts behind it.
Result<void> Incoming::take_stream(bool waits_for_peer) {
    return ends_in_stream() ? Result<void>()
                            : borrow_stream(context_, operand_, kept_place_, waits_for_peer, borrowed_);
}

void Incoming::count(Choice choice, uint64_t bytes) {
    path_ = choice.path;
    link_->received.count(choice, bytes);
    trace_.chosen(choice);
}

Result<void> Incoming::start(Link& link, const Record& record, std::span<const std::byte> payload) {
    CHECK(state_ == State::kNew);
    link_ = &link;
    bytes_ = std::min<uint64_t>(record.envelope.bytes, operand_.bytes);
    if (record.kind == RecordKind::kCaptured)
        return start_captured(record);
    if (record.kind != RecordKind::kInline) // which ends before its slot
        slot_ = record.slot;
    switch (record.kind) {
    case RecordKind::kInline: return start_inline(payload);
    case RecordKind::kSlot:
        if (slot_.slot >= kMailSlot) {
            count({Path::kMailbox, Reason::kSmall}, record.envelope.bytes);
            return take_mail(record.envelope.bytes);
        }
        count({link_->to_self ? Path::kSelf : Path::kStaged, Reason::kSmall}, record.envelope.bytes);
        return start_slot();
    default: CHECK(record.kind == RecordKind::kRequest); return start_request(record);
    }
}

// ------------------------------------------------------------------------------------ small messages: shm, staged

Result<void> Incoming::start_inline(std::span<const std::byte> payload) {
    link_->note_inline(payload.size());
    path_ = link_->inline_choice().path;
    trace_.chosen(link_->inline_choice());
    if (bytes_ == 0)
        return finish_in_order();
    if (operand_.by_cpu()) {
        std::memcpy(operand_.address, payload.data(), bytes_);
        finish();
        return {};
    }
    GPURUN_TRY(take_stream(false)); // the bytes are here
    GPURUN_ASSIGN(Landing::Buffer * landing, context_.landing.take(bytes_));
    std::memcpy(landing->data, payload.data(), bytes_);
    device::Times* const times = stream_times();
    GPURUN_TRY(write_time(context_.device, operand_.stream, times, &device::Times::moving));
    GPURUN_TRY(copy_through_host(context_, operand_, operand_.address, landing->data, bytes_));
    GPURUN_TRY(write_time(context_.device, operand_.stream, times, &device::Times::done));
    return end_behind(*landing);
}

// A kernel may wait for the source where nobody can be held up by it; else the stream waits before it.
bool Incoming::kernel_may_wait(Fence& fence, uint32_t size) const {
    return ending_ == Ending::kInStream &&
           context_.waits.admits(operand_.stream, size, fence.counter(Edge::kBackward, slot_.slot), slot_.value);
}

// Whether nothing in a stream of the user's has to come before the message any more.
Result<bool> Incoming::place_is_over() {
    if (!operand_.on_stream)
        return true;
    return kept_place_ ? context_.places.is_over(*kept_place_) : Result<bool>(false);
}

Result<void> Incoming::start_slot() {
    from_host_ = true;
    if (bytes_ != 0) {
        GPURUN_ASSIGN(from_, link_->in.eager_buffer(slot_.slot - kEagerSlot, !operand_.by_cpu()));
    }
    return copy_behind_edge(false);
}

// ------------------------------------------------------------------------------- large messages: direct and relays

Result<void> Incoming::start_request(const Record& record) {
    const Choice choice = choose_path(context_, *link_, record, operand_);
    count(choice, record.envelope.bytes);
    serial_ = record.serial;
    if (choice.reason == Reason::kSingleCopy) {
        from_ = reinterpret_cast<const std::byte*>(record.source.address);
        return start_reading();
    }
    if (!can_pull(choice, record))
        return grant(choice);
    return record.slot.valid != 0 ? pull(record.source, choice) : want_edge(record, choice);
}

bool Incoming::can_pull(Choice choice, const Record& record) const {
    if (choice.path == Path::kDirect || record.envelope.bytes == 0)
        return true;
    if (choice.path != Path::kSelf)
        return false;
    const auto placement = static_cast<device::Placement>(record.source.placement);
    if (placement == device::Placement::kElsewhere || operand_.elsewhere())
        return false; // no engine is known to reach both buffers
    const bool pageable =
        placement == device::Placement::kPageable || operand_.where.placement == device::Placement::kPageable;
    const bool from_host = placement == device::Placement::kPageable || placement == device::Placement::kPinned;
    return (from_host && operand_.in_host_memory()) || !pageable;
}

base::Error Incoming::source_died() {
    return {base::Status::kPeerLost, "the other rank died before the message had moved"};
}

Result<void> Incoming::want_edge(const Record& record, Choice choice) {
    if (link_->lost)
        return source_died();
    if (!kept_place_)
        GPURUN_TRY(keep_place());
    edgeless_ = Edgeless{record.source, choice};
    Record question{};
    question.kind = RecordKind::kWantEdge;
    question.serial = serial_;
    link_->tell(question);
    link_->edgeless_in.push_back(*this);
    state_ = State::kEdgeless;
    return {};
}

Result<void> Incoming::take_edge(const SlotValue& edge) {
    CHECK(state_ == State::kEdgeless);
    link_->edgeless_in.remove(*this);
    slot_ = edge;
    return pull(edgeless_->source, edgeless_->choice);
}

Result<void> Incoming::pull(const SourceBuffer& source, Choice choice) {
    if (bytes_ == 0) {
        from_host_ = true; // nothing to read
    } else if (choice.path == Path::kSelf) {
        from_ = reinterpret_cast<const std::byte*>(source.address);
        from_host_ = source.placement == static_cast<uint32_t>(device::Placement::kPageable) ||
                     source.placement == static_cast<uint32_t>(device::Placement::kPinned);
    } else {
        GPURUN_ASSIGN(ImportCache * imports, link_->open_imports());
        GPURUN_ASSIGN(from_, imports->address(source, slot_.slot, slot_.value));
        from_host_ = false;
    }
    GPURUN_TRY(copy_behind_edge(bytes_ != 0));
    answer_pulled(choice);
    return {};
}

void Incoming::answer_pulled(Choice choice, bool unreadable) {
    Record answer{};
    answer.kind = RecordKind::kPulled;
    answer.serial = serial_;
    answer.slot = slot_;
    answer.pulled.path = static_cast<uint32_t>(choice.path);
    answer.pulled.reason = static_cast<uint32_t>(choice.reason);
    answer.pulled.bytes = bytes_;
    answer.pulled.unreadable = unreadable ? 1 : 0;
    answer.pulled.ends = state_ != State::kBeforeCopy ? 1 : 0;
    link_->tell(answer);
}

Result<void> Incoming::grant(Choice choice) {
    constexpr uint64_t kShmChunk = 256 * 1024; // stays in the cache on its way from one CPU to the other
    const uint64_t largest = choice.path == Path::kShm ? kShmChunk : context_.settings.relay_chunk_bytes;
    const RelayPlan plan = plan_relay(choice.path == Path::kBounce ? Pool::kSlab : Pool::kHost, bytes_, largest);
    Record answer{};
    answer.kind = RecordKind::kGrant;
    answer.serial = serial_;
    answer.grant.pool = plan.pool;
    answer.grant.reason = static_cast<uint32_t>(choice.reason);
    answer.grant.bytes = plan.bytes;
    answer.grant.chunk_bytes = plan.chunk_bytes;
    if (bytes_ == 0) {
        link_->tell(answer);
        return finish_in_order();
    }
    if (link_->lost)
        return source_died();
    if (!operand_.by_cpu())
        GPURUN_TRY(take_stream());
    if (ends_in_stream() && beside_send_) {
        GPURUN_ASSIGN(borrowed_, context_.streams.take());
        join_ = operand_.stream;
        GPURUN_TRY(context_.joints.order(*join_, *borrowed_));
        operand_.stream = *borrowed_;
    }
    link_->tell(answer);
    relay_.emplace(context_, *link_, Relay::Side::kDrain, plan, stream_times());
    link_->relay_in.push_back(*this);
    state_ = State::kRelay;
    return advance();
}

// ---------------------------------------------------------------------------------------- one copy behind an edge

// `source_awaits`: the source's stream will await the backward edge, so that is signalled, or enqueued, on return.
Result<void> Incoming::copy_behind_edge(bool source_awaits) {
    const bool all_by_cpu = operand_.by_cpu() && from_host_;
    if (all_by_cpu || (!operand_.on_stream && bytes_ == 0)) {
        GPURUN_ASSIGN(Fence * fence, link_->in.fence());
        awaited_ = Awaited::edge_of(fence, Edge::kForward, slot_.slot, slot_.value);
        state_ = State::kBeforeCopy;
        GPURUN_TRY(advance());
        if (state_ != State::kBeforeCopy || !source_awaits)
            return {};
        awaited_.reset();
    }
    return copy_on_stream();
}

Result<void> Incoming::copy_now() {
    GPURUN_ASSIGN(Fence * fence, link_->in.fence());
    if (bytes_ != 0)
        std::memcpy(operand_.address, from_, bytes_);
    fence->signal_now(Edge::kBackward, slot_.slot, slot_.value);
    // Others may wait there for its slot (Link::tell).
    context_.job.ring_doorbell(link_->peer,
                               slot_.slot < kLateSlot ? platform::News::kPassive : platform::News::kUrgent);
    finish();
    return {};
}

Result<void> Incoming::note_source(Fence& fence, device::Stream stream) {
    if (link_->lost) {
        GPURUN_ASSIGN(const bool cut_short, fence.cut_short(Edge::kForward, slot_.slot, slot_.value));
        if (cut_short)
            return source_died();
    }
    link_->awaiting_forward[slot_.slot] = InFlight{stream, slot_.value};
    return {};
}

Result<void> Incoming::leave_to_stream(Fence& fence) {
    if (ends_in_stream()) {
        finish();
        return {};
    }
    GPURUN_ASSIGN(const Awaited end,
                  own_end(context_, Awaited::edge_of(&fence, Edge::kBackward, slot_.slot, slot_.value),
                          signals_.value_or(operand_.stream), end_));
    drain(end);
    return {};
}

// A copy engine needs the stream to wait for it and to say that it is done; a kernel does both itself.
bool Incoming::copies_by_kernel() const {
    constexpr uintptr_t kAligned = 16;
    const auto on_device = operand_.where.placement == device::Placement::kDevice;
    const auto both = reinterpret_cast<uintptr_t>(from_) | reinterpret_cast<uintptr_t>(operand_.address);
    return on_device && !from_host_ && bytes_ != 0 && bytes_ <= context_.settings.kernel_copy_bytes &&
           both % kAligned == 0 && !link_->to_self && context_.kernels_wait;
}

// A large copy that has nothing to wait for goes behind others of its kind.
Result<bool> Incoming::take_lane(Fence& fence, bool ready) {
    const bool large = bytes_ > context_.settings.kernel_copy_bytes && !from_host_ && !link_->to_self;
    if (!ready || !large || ends_in_stream() || operand_.where.placement != device::Placement::kDevice)
        return false;
    GPURUN_ASSIGN(const bool at_once, place_is_over());
    if (!at_once)
        return false;
    GPURUN_TRY(note_source(fence, device::Stream{this})); // of no stream, until it is joined
    GPURUN_ASSIGN(const Streams::Lane lane, context_.streams.lane());
    context_.places.give_back(kept_place_);
    borrowed_ = lane.copies;
    signals_ = lane.signals;
    operand_.stream = lane.copies;
    return true;
}

Result<void> Incoming::copy_on_stream() {
    GPURUN_ASSIGN(Fence * fence, link_->in.fence());
    GPURUN_ASSIGN(const bool ready, fence->reached(Edge::kForward, slot_.slot, slot_.value));
    GPURUN_ASSIGN(const bool in_lane, take_lane(*fence, ready));
    if (in_lane)
        return copy_by_engine(*fence, true);
    GPURUN_TRY(take_stream(!ready));
    GPURUN_TRY(note_source(*fence, operand_.stream));
    const bool kernel_waits = !ready && copies_by_kernel() && kernel_may_wait(*fence, device::kCopyWait);
    // What need not wait in a kernel goes by a copy engine, unless somebody wants to know when: a kernel says so by the
    // way.
    const bool tells = trace_.records() && operand_.on_stream;
    if (kernel_waits || (tells && copies_by_kernel()))
        return copy_by_kernel(*fence, ready, kernel_waits);
    return copy_by_engine(*fence, ready);
}

Result<void> Incoming::copy_by_kernel(Fence& fence, bool ready, bool kernel_waits) {
    device::FencedCopy copy;
    copy.destination = operand_.address;
    copy.source = from_;
    copy.bytes = bytes_;
    copy.before = kernel_waits ? &fence.counter(Edge::kForward, slot_.slot) : nullptr;
    copy.after = &fence.counter(Edge::kBackward, slot_.slot);
    copy.value = slot_.value;
    copy.ticket = context_.workspace.ticket(link_->peer, Role::kTarget, slot_.slot);
    copy.gate = context_.workspace.gate(link_->peer, slot_.slot);
    copy.times = trace_.times(context_.trace);
    if (!ready && !kernel_waits) {
        GPURUN_TRY(write_time(context_.device, operand_.stream, copy.times, &device::Times::began));
        GPURUN_TRY(fence.await(Edge::kForward, slot_.slot, slot_.value, operand_.stream));
    }
    GPURUN_TRY(context_.device.copy_fenced(copy, operand_.stream));
    return leave_to_stream(fence);
}

// Copies by a host function, too.
Result<void> Incoming::copy_by_engine(Fence& fence, bool ready) {
    const device::Stream stream = operand_.stream;
    device::Times* const times = bytes_ != 0 ? stream_times() : nullptr;
    if (!ready) {
        GPURUN_TRY(write_time(context_.device, stream, times, &device::Times::began));
        GPURUN_TRY(fence.await(Edge::kForward, slot_.slot, slot_.value, stream));
    }
    GPURUN_TRY(write_time(context_.device, stream, times, &device::Times::moving));
    if (operand_.by_cpu() && from_host_ && bytes_ != 0)
        GPURUN_TRY(context_.host_copies.enqueue(context_.device, stream, operand_.address, from_, bytes_));
    else if (from_host_ || bytes_ == 0)
        GPURUN_TRY(copy_through_host(context_, operand_, operand_.address, from_, bytes_));
    else
        GPURUN_TRY(context_.device.copy(operand_.address, from_, bytes_, stream));
    if (signals_)
        GPURUN_TRY(context_.joints.order(stream, *signals_));
    const device::Stream behind = signals_.value_or(stream);
    GPURUN_TRY(fence.signal(Edge::kBackward, slot_.slot, slot_.value, behind));
    GPURUN_TRY(write_time(context_.device, behind, times, &device::Times::done));
    return leave_to_stream(fence);
}

Result<void> Incoming::advance() {
    if (state_ == State::kBeforeCopy) {
        GPURUN_ASSIGN(const bool ready, awaited_->come(context_.device));
        return ready ? copy_now() : Result<void>();
    }
    if (state_ == State::kReading)
        return read_from_peer();
    if (state_ == State::kCovered)
        return uncover();
    if (state_ == State::kInDoubt && platform::now_ns() > verdict_by_ns_)
        return base::error(base::Status::kSystem,
                           "the memory of rank {} cannot be read any more, and nobody knows whether it has died",
                           link_->peer);
    if (state_ == State::kRelay && link_->relay_in.front() == this) {
        GPURUN_ASSIGN(const bool drained, relay_->step(operand_));
        if (!drained)
            return {};
        link_->relay_in.remove(*this);
        if (join_)
            GPURUN_TRY(context_.joints.order(operand_.stream, *join_));
        if (ends_in_stream() || operand_.by_cpu()) {
            finish();
            return {};
        }
        GPURUN_ASSIGN(const Awaited end, own_end(context_, relay_->last(), operand_.stream, end_));
        drain(end);
    }
    if (state_ == State::kDraining) {
        GPURUN_ASSIGN(const bool come, awaited_->come(context_.device));
        // as in Outgoing
        if (come && (link_->lost || !context_.job.is_gone(link_->peer))) {
            drained_ = true;
            finish();
        }
    }
    return {};
}

} // namespace gpurun::transfer
