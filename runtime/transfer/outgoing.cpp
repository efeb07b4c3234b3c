#include "transfer/outgoing.hpp"

#include "base/format.hpp"

namespace gpurun::transfer {

using base::Result;

// The engine has ended it under its lock: nothing points to it any more.
Outgoing::~Outgoing() { CHECK(state_ == State::kDone || state_ == State::kNew); }

// A copy that is still enqueued must not touch the buffer once the message is done. All that it waits for has been
// enqueued or released, so it ends.
void Outgoing::fail(base::Error error) {
    const bool failed_before = error_.has_value();
    if (!failed_before)
        error_ = std::move(error);
    trace_.failed();
    leave_link();
    if (relay_)
        relay_->give_up(operand_);
    if (shares_kernel_ && state_ == State::kDraining && !failed_before)
        return; // it ends, whatever becomes of its target
    if (borrowed_ && !failed_before && context_.releases_streams()) {
        if (auto end = context_.events.mark(*borrowed_)) {
            give_back(end_, context_);
            end_ = *end;
            drain(Awaited::event_of(*end_));
            return;
        }
    }
    finish(); // a device that fails here has nothing left to copy
}

void Outgoing::abandon(base::Error error) {
    if (!error_)
        error_ = std::move(error);
    trace_.failed();
    if (relay_)
        relay_->give_up(operand_);
    if (borrowed_ && context_.releases_streams())
        (void)context_.device.synchronize(*borrowed_);
    finish();
}

void Outgoing::leave_link() {
    link_.unposted.remove(*this);
    link_.owing_edge.remove(*this);
    if (state_ == State::kUnanswered)
        link_.unanswered.remove(*this);
    if (state_ == State::kRelay)
        link_.relay_out.remove(*this);
}

void Outgoing::drain(const Awaited& awaited) {
    awaited_ = awaited;
    state_ = State::kDraining;
}

Streams::State Outgoing::stream_state() const {
    if (error_ && !context_.releases_streams())
        return Streams::State::kStuck;
    return drained_ ? Streams::State::kIdle : Streams::State::kWaiting;
}

void Outgoing::tell_trace_of_end() {
    if (ends_in_stream() && !drained_)
        trace_.enqueued_only();
    trace_.ended();
}

void Outgoing::finish() {
    shared_.reset();
    leave_link();
    if (borrowed_)
        context_.streams.take_back(*std::exchange(borrowed_, std::nullopt), stream_state(), end_of(context_, awaited_));
    context_.places.give_back(kept_place_);
    give_back(end_, context_);
    awaited_.reset();
    if (trace_.records()) [[unlikely]]
        tell_trace_of_end();
    state_ = State::kDone;
}

std::optional<Awaited> Outgoing::awaited() const {
    if (state_ == State::kNew || state_ == State::kUnanswered || state_ == State::kDraining)
        return awaited_;
    if (state_ == State::kRelay && relay_)
        return relay_->blocked_on();
    return std::nullopt;
}

Result<void> Outgoing::join(device::Stream stream) {
    CHECK(enqueued());
    if (operand_.captured && stream != operand_.stream) {
        GPURUN_ASSIGN(const bool in_capture, context_.device.is_captured(stream)); // else it has ended without this
        if (in_capture) // not before the graph has read the buffer, and counted its run
            GPURUN_TRY(context_.capture_joints.order(operand_.stream, stream));
    }
    if (taken_)
        return context_.device.channel_await_taken(*std::exchange(taken_, std::nullopt), stream);
    if (done())
        return {};
    GPURUN_ASSIGN(const bool over, awaited_->is_over(context_.device));
    if (!over) {
        GPURUN_TRY(await_end(stream));
        trace_.enqueued_only();
    }
    if (!over && !awaited_->on_event && awaited_->edge == Edge::kBackward && !link_.lost)
        link_.awaiting_backward[awaited_->slot] = InFlight{stream, awaited_->value};
    if (borrowed_ && !link_.lost)
        hand_over(link_.awaiting_backward, *borrowed_, stream);
    finish();
    return {};
}

Result<void> Outgoing::await_end(device::Stream stream) {
    if (moves_in_ != 0) {
        GPURUN_ASSIGN(const uint64_t name, context_.device.name(stream));
        if (name == moves_in_)
            return {}; // behind all of it
    }
    if (launch_ != 0) {
        GPURUN_ASSIGN(const bool awaited, context_.mails.await_put(context_, launch_, stream));
        if (awaited)
            return {};
    }
    return awaited_->await(context_.device, stream);
}

Result<bool> Outgoing::survives() const {
    // What fills a relay counts only once it was drained, which nobody will tell any more.
    if (state_ != State::kDraining || relay_)
        return false;
    if (awaited_->on_event)
        return true; // its own place, after the answer
    GPURUN_ASSIGN(const bool cut_short, awaited_->fence->cut_short(awaited_->edge, awaited_->slot, awaited_->value));
    return !cut_short;
}

Result<void> Outgoing::keep_place() {
    if (!is_joined() || signalled_ || kept_place_ || operand_.captured)
        return {};
    GPURUN_ASSIGN(kept_place_, context_.places.keep(operand_.stream));
    return {};
}

// The stream for what is enqueued now: the operand's own, unless it has gone on.
Result<void> Outgoing::take_stream(bool waits_for_peer) {
    const bool in_own = operand_.on_stream && !kept_place_;
    return in_own ? Result<void>() : borrow_stream(context_, operand_, kept_place_, waits_for_peer, borrowed_);
}

// The same after the forward edge was signalled in the operand's own.
Result<void> Outgoing::leave_stream() {
    if (borrowed_)
        return {};
    GPURUN_ASSIGN(Fence * fence, link_.out.fence());
    GPURUN_ASSIGN(borrowed_, context_.streams.take());
    GPURUN_TRY(fence->await(Edge::kForward, slot_.slot, slot_.value, *borrowed_));
    operand_.stream = *borrowed_;
    return {};
}

bool Outgoing::push(const Record& record, std::span<const std::byte> payload) {
    // What carries its bytes can lie there until its receiver looks; a request wants an answer.
    const bool wants_answer = record.kind == RecordKind::kRequest;
    return link_.push(record, payload, wants_answer ? platform::News::kUrgent : platform::News::kPassive);
}

// ---------------------------------------------------------------------------------------------------- posting

namespace {

bool has_credit(Link& link, uint64_t bytes) {
    const uint64_t after = link.eager_sent + bytes + sizeof(Record);
    if (after - link.eager_matched_seen > kEagerCreditBytes)
        link.eager_matched_seen = link.out.control().eager_matched.load(std::memory_order_relaxed);
    return after - link.eager_matched_seen <= kEagerCreditBytes;
}

bool push_any_inline(Link& link, const std::byte* payload, const Envelope& envelope) {
    Record record;
    record.kind = RecordKind::kInline;
    record.serial = 0;
    record.envelope = envelope;
    return link.push(record, {payload, envelope.bytes}, platform::News::kPassive);
}

bool push_inline(Link& link, const std::byte* payload, const Envelope& envelope) {
    const bool is_short = envelope.bytes <= RingProducer::kLargestShort;
    if (!(is_short && link.push_short(envelope, payload)) && !push_any_inline(link, payload, envelope))
        return false;
    ++link.out_count.messages;
    link.eager_sent += envelope.bytes + sizeof(Record);
    link.sent.count(link.inline_choice(), envelope.bytes);
    return true;
}

// Apart, so that it does not stand in the way of the others.
[[gnu::noinline]] bool push_and_record(platform::TraceBuffer& trace, Link& link, const std::byte* payload,
                                       const Envelope& envelope) {
    platform::TraceEvent* const call = platform::TraceBuffer::take_offered(); // began when the message does
    platform::TraceBuffer::offer(call);
    const int64_t begin_ns = call != nullptr ? call->begin_ns : platform::now_ns();
    if (!push_inline(link, payload, envelope))
        return false;
    MessageTrace::sent_at_once(trace, link.peer, envelope, link.inline_choice(), link.out_count.messages, begin_ns);
    return true;
}

} // namespace

bool Outgoing::send_at_once(Context& context, Link& link, const std::byte* payload, const Envelope& envelope) {
    if (!has_credit(link, envelope.bytes))
        return false;
    if (context.trace != nullptr) [[unlikely]]
        return push_and_record(*context.trace, link, payload, envelope);
    return push_inline(link, payload, envelope);
}

bool Outgoing::slot_fits() const {
    if (operand_.by_cpu())
        return false;
    const base::PathChoice forced = context_.settings.path;
    if (!operand_.in_host_memory() && !link_.to_self &&
        (forced == base::PathChoice::kDirect || forced == base::PathChoice::kBounce))
        return envelope_.bytes == 0;
    return envelope_.bytes <= context_.settings.device_eager_bytes;
}

Result<bool> Outgoing::post() {
    CHECK(state_ == State::kNew);
    if (operand_.captured)
        return post_captured();
    if (slot_.valid != 0) // it stays what it was when the ring had no room
        return slot_.slot < kEagerSlot ? post_request() : slot_.slot < kMailSlot ? post_slot(slot_) : post_mail(slot_);
    if (mode_.synchronous)
        return post_request();
    if (fits_inline(context_, operand_, mode_) && has_credit(link_, envelope_.bytes)) {
        trace_.posting_small();
        if (!push_inline(link_, operand_.address, envelope_))
            return false;
        trace_.posted(link_.out_count.messages);
        trace_.chosen(link_.inline_choice());
        trace_.ended();
        state_ = State::kDone;
        return true;
    }
    if (mail_fits()) {
        GPURUN_ASSIGN(Fence * fence, link_.out.fence());
        GPURUN_ASSIGN(const std::optional<SlotValue> slot, take_mail_slot(*fence));
        if (slot)
            return post_mail(*slot);
    }
    if (slot_fits()) {
        GPURUN_ASSIGN(Fence * fence, link_.out.fence());
        GPURUN_ASSIGN(const std::optional<SlotValue> slot, link_.eager_slots.take(*fence));
        if (slot)
            return post_slot(*slot);
    }
    return post_request();
}

Result<bool> Outgoing::post_captured() {
    awaited_.reset();
    trace_.posting();
    GPURUN_ASSIGN(const std::optional<Channels::Sent> sent,
                  link_.channels.send(operand_, envelope_, mode_.synchronous, trace_.name_of_runs(context_.trace)));
    if (!sent) {
        awaited_ = link_.channels.next_room();
        return false;
    }
    trace_.posted(++link_.out_count.captured);
    trace_.chosen(sent->choice);
    if (sent->awaits_taken && ends_in_stream())
        GPURUN_TRY(context_.device.channel_await_taken(sent->channel, operand_.stream));
    else if (sent->awaits_taken)
        taken_ = sent->channel;
    finish();
    return true;
}

Result<bool> Outgoing::post_slot(const SlotValue& slot) {
    slot_ = slot;
    GPURUN_ASSIGN(Fence * fence, link_.out.fence());
    GPURUN_TRY(take_stream(false));
    if (!signalled_) {
        device::Times* times = nullptr;
        if (envelope_.bytes != 0) {
            GPURUN_ASSIGN(std::byte * buffer, link_.out.eager_buffer(slot.slot - kEagerSlot, true));
            times = stream_times();
            GPURUN_TRY(write_time(context_.device, operand_.stream, times, &device::Times::moving));
            GPURUN_TRY(copy_through_host(context_, operand_, buffer, operand_.address, envelope_.bytes));
        }
        GPURUN_TRY(fence->signal(Edge::kForward, slot.slot, slot.value, operand_.stream));
        GPURUN_TRY(write_time(context_.device, operand_.stream, times, &device::Times::done));
        note_stream();
        signalled_ = true;
    }
    if (!push_slot({link_.to_self ? Path::kSelf : Path::kStaged, Reason::kSmall}))
        return false;
    leave_to_stream(*fence);
    return true;
}

void Outgoing::count(Choice choice) {
    path_ = choice.path;
    link_.sent.count(choice, envelope_.bytes);
    trace_.chosen(choice);
}

bool Outgoing::push_slot(Choice choice) {
    Record record{};
    record.kind = RecordKind::kSlot;
    record.envelope = envelope_;
    record.slot = slot_;
    trace_.posting_small();
    if (!push(record))
        return false;
    trace_.posted(++link_.out_count.messages);
    count(choice);
    return true;
}

// All of it is enqueued now in the operand's own stream. The program may destroy that before the message is posted.
void Outgoing::note_stream() {
    if (is_joined() && !borrowed_)
        if (const auto name = context_.device.name(operand_.stream))
            moves_in_ = name.value();
}

// All is enqueued, and signals the forward edge at its end.
void Outgoing::leave_to_stream(Fence& fence) {
    if (ends_in_stream())
        return finish();
    drain(Awaited::edge_of(&fence, Edge::kForward, slot_.slot, slot_.value));
}

Result<bool> Outgoing::post_request() {
    Record record{};
    record.kind = RecordKind::kRequest;
    record.envelope = envelope_;
    link_.describe_source(operand_, record.source);
    // A message that the target might pull needs an edge that says when its bytes are ready.
    // So does one that is nothing but its place in a stream, and one whose stream goes on.
    const bool needs_edge = record.source.exportable != 0 || link_.to_self || envelope_.bytes == 0 || is_joined();
    if (needs_edge && !signalled_) {
        GPURUN_ASSIGN(Fence * fence, link_.out.fence());
        GPURUN_ASSIGN(const std::optional<SlotValue> slot, link_.direct_slots.take(*fence));
        if (slot)
            GPURUN_TRY(signal_ready(*fence, *slot));
        else // the receiver may want this message before those that hold the slots
            GPURUN_TRY(keep_place());
    }
    record.slot = slot_;
    if (serial_ == 0)
        serial_ = link_.next_serial++;
    record.serial = serial_;
    trace_.posting();
    if (!push(record))
        return false;
    trace_.posted(++link_.out_count.messages);
    link_.unanswered.push_back(*this);
    state_ = State::kUnanswered;
    return true;
}

// The message has its place in the operand's stream, or has it now: its forward edge follows.
Result<void> Outgoing::signal_ready(Fence& fence, const SlotValue& slot) {
    slot_ = slot;
    if (operand_.on_stream) {
        GPURUN_TRY(take_stream());
        GPURUN_TRY(fence.signal(Edge::kForward, slot_.slot, slot_.value, operand_.stream));
    } else {
        fence.signal_now(Edge::kForward, slot_.slot, slot_.value);
    }
    signalled_ = true;
    return {};
}

// ---------------------------------------------------------------------------------------------------- answers

Result<void> Outgoing::answered(const Record& answer) {
    CHECK(state_ == State::kUnanswered);
    trace_.matched();
    matched_ = true;
    if (answer.kind == RecordKind::kWantEdge) {
        link_.owing_edge.push_back(*this);
        return {};
    }
    shared_.reset(); // nothing is left of it
    link_.unanswered.remove(*this);
    return answer.kind == RecordKind::kPulled ? pulled(answer) : granted(answer);
}

Result<bool> Outgoing::give_edge() {
    CHECK(state_ == State::kUnanswered && !signalled_);
    GPURUN_ASSIGN(Fence * fence, link_.out.fence());
    GPURUN_ASSIGN(std::optional<SlotValue> slot, link_.direct_slots.take(*fence));
    if (!slot) {
        GPURUN_ASSIGN(slot, link_.late_slots.take(*fence));
    }
    awaited_.reset();
    if (!slot) {
        awaited_ = link_.late_slots.next_free(*fence);
        return false;
    }
    GPURUN_TRY(signal_ready(*fence, *slot));
    Record record{};
    record.kind = RecordKind::kEdge;
    record.serial = serial_;
    record.slot = slot_;
    link_.tell(record);
    return true;
}

// No byte leaves. What follows the message in a stream still comes after its place there.
Result<void> Outgoing::end_in_place() {
    if (!is_joined()) {
        finish();
        return {};
    }
    if (slot_.valid != 0) {
        GPURUN_ASSIGN(Fence * fence, link_.out.fence());
        drain(Awaited::edge_of(fence, Edge::kForward, slot_.slot, slot_.value));
    } else {
        end_ = context_.places.release(kept_place_);
        drain(Awaited::event_of(*end_));
    }
    return advance();
}

Result<void> Outgoing::pulled(const Record& answer) {
    count({static_cast<Path>(answer.pulled.path), static_cast<Reason>(answer.pulled.reason)});
    if (answer.pulled.unreadable != 0)
        return base::error(base::Status::kBuffer,
                           "rank {} could not read the message's memory any more: it was unmapped or protected before "
                           "the message was complete",
                           link_.peer);
    if (slot_.valid == 0) { // read by the target's CPU, which is done
        trace_.read_by_peer();
        finish();
        return {};
    }
    if (answer.pulled.ends != 0)
        link_.settle(slot_, Edge::kBackward);
    if (answer.pulled.bytes == 0) // the slot stays in use until the target has come to the message in its order
        return end_in_place();
    GPURUN_ASSIGN(Fence * fence, link_.out.fence());
    if (ends_in_stream()) {
        GPURUN_TRY(await_in_stream(context_, *fence, Edge::kBackward, slot_, operand_.stream));
        link_.awaiting_backward[slot_.slot] = InFlight{operand_.stream, slot_.value};
        finish();
        return {};
    }
    drain(Awaited::edge_of(fence, Edge::kBackward, slot_.slot, slot_.value));
    return advance();
}

Result<void> Outgoing::granted(const Record& answer) {
    if (slot_.valid != 0)
        link_.settle(slot_, Edge::kForward);
    const auto reason = static_cast<Reason>(answer.grant.reason);
    const bool in_host = operand_.in_host_memory() && reason == Reason::kHostMemory;
    const Path path = link_.to_self                      ? Path::kSelf
                      : in_host                          ? Path::kShm
                      : answer.grant.pool == Pool::kSlab ? Path::kBounce
                                                         : Path::kStaged;
    count({path, reason});
    if (answer.grant.bytes == 0)
        return end_in_place();
    if (is_joined() && slot_.valid != 0)
        GPURUN_TRY(leave_stream());
    else if (!operand_.by_cpu())
        GPURUN_TRY(take_stream());
    relay_.emplace(context_, link_, Relay::Side::kFill,
                   RelayPlan{answer.grant.pool, answer.grant.bytes, answer.grant.chunk_bytes}, stream_times());
    link_.relay_out.push_back(*this);
    state_ = State::kRelay;
    return advance();
}

void Outgoing::share_copy(const Record& record) {
    if (state_ != State::kUnanswered)
        return;
    shared_.emplace(link_.out.control(), record.share.bytes, static_cast<uint32_t>(record.share.number));
    shared_address_ = record.share.address;
}

void Outgoing::write_shared() {
    const auto piece = shared_->take_back();
    if (!piece) {
        shared_.reset();
        return;
    }
    const auto wrote = platform::write_peer(context_.job.rank(link_.peer).pid, shared_address_ + piece->offset,
                                            operand_.address + piece->offset, piece->bytes);
    shared_->written(*piece, static_cast<bool>(wrote));
    if (!wrote) // the target reads it itself
        shared_.reset();
}

Result<void> Outgoing::advance() {
    if (shared_)
        write_shared();
    if (state_ == State::kRelay && link_.relay_out.front() == this) {
        GPURUN_ASSIGN(const bool filled, relay_->step(operand_));
        if (!filled)
            return {};
        link_.relay_out.remove(*this);
        if (ends_in_stream() || operand_.by_cpu()) {
            finish();
            return {};
        }
        GPURUN_ASSIGN(const Awaited end, own_end(context_, relay_->last(), operand_.stream, end_));
        drain(end);
    }
    if (state_ == State::kDraining) {
        GPURUN_ASSIGN(const bool come, awaited_->come(context_.device));
        // else poison may be why: the engine decides
        if (come && (link_.lost || !context_.job.is_gone(link_.peer))) {
            drained_ = true;
            finish();
        }
    }
    return {};
}

} // namespace gpurun::transfer
