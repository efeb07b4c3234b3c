#include "transfer/outgoing.hpp"

#include "base/format.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;

// The engine has ended it under its lock: nothing points to it any more.
Outgoing::~Outgoing() { CHECK(state_ == State::kDone || state_ == State::kNew); }

void Outgoing::fail(base::Error error) {
    error_ = std::move(error);
    // A copy that is still enqueued must not touch the buffer once the call has returned. All that it waits for has
    // been enqueued or released, so this ends; a device that fails here has nothing left to copy.
    if (borrowed_ && context_.releases_streams())
        (void)context_.device.synchronize(*borrowed_);
    finish();
}

void Outgoing::finish() {
    std::erase(link_.unposted, this);
    std::erase(link_.unanswered, this);
    std::erase(link_.relay_out, this);
    if (borrowed_)
        context_.streams.take_back(*std::exchange(borrowed_, std::nullopt),
                                   error_.has_value() && !context_.releases_streams());
    awaited_.reset();
    state_ = State::kDone;
}

std::optional<Awaited> Outgoing::awaited() const {
    if (state_ == State::kNew || state_ == State::kDraining)
        return awaited_;
    if (state_ == State::kRelay && relay_)
        return relay_->blocked_on();
    return std::nullopt;
}

Result<void> Outgoing::take_stream() {
    if (operand_.on_stream || borrowed_)
        return {};
    GPURUN_ASSIGN(borrowed_, context_.streams.take());
    operand_.stream = *borrowed_;
    return {};
}

bool Outgoing::push(const Record& record, std::span<const std::byte> payload) {
    if (!link_.producer.push(record, payload))
        return false;
    context_.job.ring_doorbell(link_.peer);
    return true;
}

// ---------------------------------------------------------------------------------------------------- posting

bool Outgoing::inline_fits() const {
    if (!operand_.by_cpu() || envelope_.bytes > context_.settings.eager_bytes)
        return false;
    const uint64_t matched = link_.out.control().eager_matched.load(std::memory_order_relaxed);
    return link_.eager_sent - matched + envelope_.bytes + sizeof(Record) <= kEagerCreditBytes;
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
    if (inline_fits())
        return post_inline();
    if (slot_fits()) {
        if (slot_.valid != 0)
            return post_slot(slot_);
        GPURUN_ASSIGN(Fence * fence, link_.out.fence());
        GPURUN_ASSIGN(const std::optional<SlotValue> slot, link_.eager_slots.take(*fence));
        if (slot)
            return post_slot(*slot);
    }
    return post_request();
}

Result<bool> Outgoing::post_inline() {
    Record record{};
    record.kind = RecordKind::kInline;
    record.envelope = envelope_;
    if (!push(record, {operand_.address, envelope_.bytes}))
        return false;
    link_.eager_sent += envelope_.bytes + sizeof(Record);
    link_.sent.count({link_.to_self ? Path::kSelf : Path::kShm, Reason::kHostMemory}, envelope_.bytes);
    state_ = State::kDone;
    return true;
}

Result<bool> Outgoing::post_slot(const SlotValue& slot) {
    slot_ = slot;
    GPURUN_ASSIGN(Fence * fence, link_.out.fence());
    GPURUN_TRY(take_stream());
    if (!signalled_) {
        if (envelope_.bytes != 0) {
            GPURUN_ASSIGN(std::byte * buffer, link_.out.eager_buffer(slot.slot - kEagerSlot, true));
            GPURUN_TRY(copy_through_host(context_, operand_, buffer, operand_.address, envelope_.bytes));
        }
        GPURUN_TRY(fence->signal(Edge::kForward, slot.slot, slot.value, operand_.stream));
        signalled_ = true;
    }
    Record record{};
    record.kind = RecordKind::kSlot;
    record.envelope = envelope_;
    record.slot = slot;
    if (!push(record))
        return false;
    link_.sent.count({link_.to_self ? Path::kSelf : Path::kStaged, Reason::kSmall}, envelope_.bytes);
    if (operand_.on_stream) {
        state_ = State::kDone;
        return true;
    }
    awaited_ = Awaited::edge_of(fence, Edge::kForward, slot.slot, slot.value);
    state_ = State::kDraining;
    return true;
}

Result<void> Outgoing::describe_source(SourceBuffer& source) {
    source.placement = static_cast<uint32_t>(operand_.where.placement);
    source.address = reinterpret_cast<uint64_t>(operand_.address);
    if (operand_.in_host_memory() || link_.to_self || !operand_.where.exportable)
        return {};
    GPURUN_ASSIGN(source.handle, context_.exports.handle(operand_.where, link_.peer));
    source.exportable = 1;
    source.allocation_id = operand_.where.id;
    source.allocation_base = reinterpret_cast<uint64_t>(operand_.where.base);
    source.allocation_bytes = operand_.where.size;
    source.offset = source.address - source.allocation_base;
    return {};
}

Result<bool> Outgoing::post_request() {
    Record record{};
    record.kind = RecordKind::kRequest;
    record.envelope = envelope_;
    GPURUN_TRY(describe_source(record.source));
    // A message that the target might pull needs an edge that says when its bytes are ready.
    // So does one that is nothing but its place in a stream.
    const bool may_be_pulled = record.source.exportable != 0 || link_.to_self || envelope_.bytes == 0;
    if (may_be_pulled && !signalled_) {
        GPURUN_ASSIGN(Fence * fence, link_.out.fence());
        GPURUN_ASSIGN(const std::optional<SlotValue> slot, link_.direct_slots.take(*fence));
        awaited_.reset();
        if (!slot) { // kDirectSlots messages to the peer are in flight
            awaited_ = link_.direct_slots.next_free(*fence);
            return false;
        }
        slot_ = *slot;
        if (operand_.on_stream)
            GPURUN_TRY(fence->signal(Edge::kForward, slot_.slot, slot_.value, operand_.stream));
        else
            fence->signal_now(Edge::kForward, slot_.slot, slot_.value);
        signalled_ = true;
    }
    record.slot = slot_;
    if (serial_ == 0)
        serial_ = link_.next_serial++;
    record.serial = serial_;
    if (!push(record))
        return false;
    link_.unanswered.push_back(this);
    state_ = State::kUnanswered;
    return true;
}

// ---------------------------------------------------------------------------------------------------- answers

Result<void> Outgoing::answered(const Record& answer) {
    CHECK(state_ == State::kUnanswered);
    std::erase(link_.unanswered, this);
    return answer.kind == RecordKind::kPulled ? pulled(answer) : granted(answer);
}

Result<void> Outgoing::pulled(const Record& answer) {
    link_.sent.count({static_cast<Path>(answer.pulled.path), static_cast<Reason>(answer.pulled.reason)},
                     envelope_.bytes);
    link_.direct_slots.settle(slot_.slot, Edge::kBackward);
    GPURUN_ASSIGN(Fence * fence, link_.out.fence());
    if (operand_.on_stream) {
        GPURUN_TRY(fence->await(Edge::kBackward, slot_.slot, slot_.value, operand_.stream));
        link_.awaiting_backward[slot_.slot] = InFlight{operand_.stream, slot_.value};
        state_ = State::kDone;
        return {};
    }
    awaited_ = Awaited::edge_of(fence, Edge::kBackward, slot_.slot, slot_.value);
    state_ = State::kDraining;
    return advance();
}

Result<void> Outgoing::granted(const Record& answer) {
    if (slot_.valid != 0)
        link_.direct_slots.settle(slot_.slot, Edge::kForward);
    const auto reason = static_cast<Reason>(answer.grant.reason);
    const bool in_host = operand_.in_host_memory() && reason == Reason::kHostMemory;
    const Path path = link_.to_self                      ? Path::kSelf
                      : in_host                          ? Path::kShm
                      : answer.grant.pool == Pool::kSlab ? Path::kBounce
                                                         : Path::kStaged;
    link_.sent.count({path, reason}, envelope_.bytes);
    if (answer.grant.bytes == 0) {
        state_ = State::kDone;
        return {};
    }
    if (!operand_.by_cpu())
        GPURUN_TRY(take_stream());
    relay_.emplace(context_, link_, Relay::Side::kFill,
                   RelayPlan{answer.grant.pool, answer.grant.bytes, answer.grant.chunk_bytes});
    link_.relay_out.push_back(this);
    state_ = State::kRelay;
    return advance();
}

Result<void> Outgoing::advance() {
    if (state_ == State::kRelay && link_.relay_out.front() == this) {
        GPURUN_ASSIGN(const bool filled, relay_->step(operand_));
        if (!filled)
            return {};
        link_.relay_out.erase(link_.relay_out.begin());
        if (operand_.on_stream || operand_.by_cpu()) {
            state_ = State::kDone;
            return {};
        }
        awaited_ = relay_->last();
        state_ = State::kDraining;
    }
    if (state_ == State::kDraining) {
        GPURUN_ASSIGN(const bool come, awaited_->come(context_.device));
        if (come && (link_.lost || !context_.job.is_gone(link_.peer))) // else poison may be why: the engine decides
            finish();
    }
    return {};
}

} // namespace gpurun::transfer
