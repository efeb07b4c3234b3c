#include "transfer/relay.hpp"

#include "transfer/message_trace.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;
using platform::kRelayBufferBytes;
using platform::kRelayBuffers;

RelayPlan plan_relay(Pool pool, uint64_t bytes, uint64_t largest_chunk) {
    constexpr uint64_t kSmallestChunk = 64 * 1024;
    constexpr uint64_t kPieces = 8;
    const uint64_t even = (bytes / kPieces + kSmallestChunk - 1) / kSmallestChunk * kSmallestChunk;
    const uint64_t chunk = std::clamp<uint64_t>(even, kSmallestChunk, kRelayBufferBytes);
    return RelayPlan{pool, bytes, std::min(chunk, largest_chunk)};
}

Relay::Chunk Relay::chunk(uint64_t number) const {
    const auto buffer = static_cast<uint32_t>(number % kRelayBuffers);
    const auto pool = static_cast<uint32_t>(plan_.pool);
    return Chunk{number, buffer, kRelaySlot + pool * static_cast<uint32_t>(kRelayBuffers) + buffer,
                 (number / kRelayBuffers + 1) * kStep};
}

Result<bool> Relay::step(const Operand& operand) {
    Half& half = side_ == Side::kFill ? link_.out : link_.in;
    GPURUN_ASSIGN(Fence * fence, half.fence());
    blocked_on_.reset();
    while (moved_ < plan_.chunks()) {
        GPURUN_ASSIGN(const bool stepped, step_one(operand, *fence));
        if (!stepped)
            return false;
    }
    return true;
}

// ------------------------------------------------------------------------------------------------- by turns

// Where host functions copy, it is they that take the time, and they run one after the other.
Result<void> Relay::take_streams(const Operand& operand) {
    if (operand.in_host_memory() || plan_.chunks() < kLeastChunksByTurns)
        return {};
    return plan_.by_turns ? part_streams(operand) : take_beside();
}

Result<void> Relay::part_streams(const Operand& operand) {
    while (parted_ < borrowed_.size()) {
        GPURUN_ASSIGN(const std::optional<device::Stream> spare, context_.streams.take_spare());
        if (!spare) {
            give_streams_back(Streams::State::kWaiting, {});
            return {};
        }
        borrowed_[parted_++] = *spare;
        GPURUN_TRY(context_.joints.order(operand.stream, *spare));
    }
    return {};
}

// It starts behind the operand's with the first signal.
Result<void> Relay::take_beside() {
    GPURUN_ASSIGN(signals_, context_.streams.take_spare());
    return {};
}

// Where a copy's signal goes, which comes behind it.
Result<device::Stream> Relay::stream_of_signal(device::Stream copies, bool is_last) {
    if (is_last || !signals_)
        return copies;
    GPURUN_TRY(context_.joints.order(copies, *signals_));
    return *signals_;
}

device::Stream Relay::stream_of_next(device::Stream own) const {
    const size_t turn = (plan_.chunks() - 1 - moved_) % (parted_ + 1);
    return turn == 0 ? own : borrowed_[turn - 1];
}

Result<void> Relay::join_streams(device::Stream own) {
    for (size_t i = 0; i < parted_; ++i)
        GPURUN_TRY(context_.joints.order(borrowed_[i], own));
    return signals_ ? context_.joints.order(*signals_, own) : Result<void>();
}

void Relay::give_streams_back(Streams::State state, const StreamEnd& end) {
    while (parted_ > 0)
        context_.streams.take_back(borrowed_[--parted_], state, end);
    if (signals_)
        context_.streams.take_back(*std::exchange(signals_, std::nullopt), state, end);
}

// Also where a stream may stay blocked for ever: the operand's own would, too, if it had to do without. A device that
// fails here has nothing left to copy.
void Relay::give_up(const Operand& operand) {
    (void)join_streams(operand.stream);
    give_streams_back(context_.releases_streams() ? Streams::State::kWaiting : Streams::State::kStuck, {});
}

// ------------------------------------------------------------------------------------------------- one chunk

Result<bool> Relay::step_one(const Operand& operand, Fence& fence) {
    const auto pool = static_cast<size_t>(plan_.pool);
    uint64_t& next = side_ == Side::kFill ? link_.chunks_filled[pool] : link_.chunks_drained[pool];
    const Chunk now = chunk(next);
    GPURUN_ASSIGN(const bool may, may_enter(operand, fence, now));
    if (!may)
        return false;
    const bool is_first = moved_ == 0;
    const bool is_last = moved_ + 1 == plan_.chunks();
    if (is_first)
        GPURUN_TRY(take_streams(operand));
    Operand here = operand;
    here.stream = stream_of_next(operand.stream);
    if (!here.by_cpu())
        GPURUN_TRY(enter(operand, fence, now, here.stream));
    GPURUN_TRY(write_time(context_.device, here.stream, is_first ? times_ : nullptr, &device::Times::moving));
    const uint64_t offset = moved_ * plan_.chunk_bytes;
    GPURUN_TRY(copy(here, now, offset, std::min(plan_.chunk_bytes, plan_.bytes - offset)));
    if (is_last)
        GPURUN_TRY(join_streams(here.stream));
    const Edge done = side_ == Side::kFill ? Edge::kForward : Edge::kBackward;
    if (here.by_cpu()) {
        fence.signal_now(done, now.slot, now.value);
    } else {
        GPURUN_ASSIGN(const device::Stream behind, stream_of_signal(here.stream, is_last));
        GPURUN_TRY(fence.signal(done, now.slot, now.value, behind));
    }
    GPURUN_TRY(write_time(context_.device, here.stream, is_last ? times_ : nullptr, &device::Times::done));
    last_number_ = next;
    if (is_last)
        give_streams_back(Streams::State::kWaiting, end_of(context_, last()));
    ++next;
    ++moved_;
    // Release: publishes that the signal has been enqueued; pairs with the acquire in may_enter() of the other side.
    if (side_ == Side::kFill)
        link_.out.control().relay_filled[pool].store(next, std::memory_order_release);
    else
        link_.in.control().relay_drained[pool].store(next, std::memory_order_release);
    context_.job.ring_doorbell(link_.peer, platform::News::kUrgent);
    return true;
}

// Null for a buffer's first use.
std::optional<Relay::Before> Relay::before(const Chunk& now) const {
    if (side_ == Side::kDrain)
        return Before{Edge::kForward, now.value};
    if (now.number < kRelayBuffers)
        return std::nullopt;
    return Before{Edge::kBackward, now.value - kStep};
}

Result<bool> Relay::may_enter(const Operand& operand, Fence& fence, const Chunk& now) {
    const std::optional<Before> needed = before(now);
    if (!needed)
        return true;
    const auto pool = static_cast<size_t>(plan_.pool);
    if (side_ == Side::kFill) {
        if (link_.out.control().relay_drained[pool].load(std::memory_order_acquire) + kRelayBuffers <= now.number)
            return false;
    } else if (link_.in.control().relay_filled[pool].load(std::memory_order_acquire) <= now.number) {
        return false;
    } else if (plan_.pool == Pool::kSlab && !link_.peer_slab_handle) {
        return false; // its record is still on the way
    }
    if (!operand.by_cpu())
        return true;
    GPURUN_ASSIGN(const bool free, reached_alive(fence, needed->edge, now.slot, needed->value));
    if (!free)
        blocked_on_ = Awaited::edge_of(&fence, needed->edge, now.slot, needed->value);
    return free;
}

Result<void> Relay::enter(const Operand& operand, Fence& fence, const Chunk& now, device::Stream stream) {
    const std::optional<Before> needed = before(now);
    if (!needed)
        return {};
    device::Times* const first_of = moved_ == 0 ? times_ : nullptr;
    GPURUN_TRY(write_time(context_.device, stream, first_of, &device::Times::began));
    GPURUN_TRY(fence.await(needed->edge, now.slot, needed->value, stream));
    auto& in_flight = side_ == Side::kFill ? link_.awaiting_backward : link_.awaiting_forward;
    in_flight[now.slot] = InFlight{operand.stream, needed->value}; // which joins that one
    return {};
}

Result<void> Relay::copy(const Operand& operand, const Chunk& now, uint64_t offset, uint64_t bytes) {
    std::byte* own = operand.address + offset;
    if (plan_.pool == Pool::kHost) {
        Half& half = side_ == Side::kFill ? link_.out : link_.in;
        GPURUN_ASSIGN(std::byte * buffer, half.relay_buffer(now.buffer, !operand.by_cpu()));
        return side_ == Side::kFill ? copy_through_host(context_, operand, buffer, own, bytes)
                                    : copy_through_host(context_, operand, own, buffer, bytes);
    }
    const size_t place = now.buffer * kRelayBufferBytes;
    if (side_ == Side::kFill) {
        GPURUN_ASSIGN(std::byte * slab, link_.slab());
        return context_.device.copy(slab + place, own, bytes, operand.stream);
    }
    GPURUN_ASSIGN(const std::byte* slab, link_.peer_slab());
    return context_.device.copy(own, slab + place, bytes, operand.stream);
}

Awaited Relay::last() const {
    const Chunk done = chunk(last_number_);
    Half& half = side_ == Side::kFill ? link_.out : link_.in;
    auto fence = half.fence();
    CHECK(fence); // step() has opened it
    return Awaited::edge_of(*fence, side_ == Side::kFill ? Edge::kForward : Edge::kBackward, done.slot, done.value);
}

} // namespace gpurun::transfer
