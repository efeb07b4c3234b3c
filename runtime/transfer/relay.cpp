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

Result<bool> Relay::step_one(const Operand& operand, Fence& fence) {
    const auto pool = static_cast<size_t>(plan_.pool);
    uint64_t& next = side_ == Side::kFill ? link_.chunks_filled[pool] : link_.chunks_drained[pool];
    const Chunk now = chunk(next);
    GPURUN_ASSIGN(const bool entered, enter(operand, fence, now));
    if (!entered)
        return false;
    device::Times* const first_of = moved_ == 0 ? times_ : nullptr;
    device::Times* const last_of = moved_ + 1 == plan_.chunks() ? times_ : nullptr;
    GPURUN_TRY(write_time(context_.device, operand.stream, first_of, &device::Times::moving));
    const uint64_t offset = moved_ * plan_.chunk_bytes;
    GPURUN_TRY(copy(operand, now, offset, std::min(plan_.chunk_bytes, plan_.bytes - offset)));
    const Edge done = side_ == Side::kFill ? Edge::kForward : Edge::kBackward;
    if (operand.by_cpu())
        fence.signal_now(done, now.slot, now.value);
    else
        GPURUN_TRY(fence.signal(done, now.slot, now.value, operand.stream));
    GPURUN_TRY(write_time(context_.device, operand.stream, last_of, &device::Times::done));
    last_number_ = next;
    ++next;
    ++moved_;
    // Release: publishes that the signal has been enqueued; pairs with the acquire in enter() of the other side.
    if (side_ == Side::kFill)
        link_.out.control().relay_filled[pool].store(next, std::memory_order_release);
    else
        link_.in.control().relay_drained[pool].store(next, std::memory_order_release);
    context_.job.ring_doorbell(link_.peer, platform::News::kUrgent);
    return true;
}

Result<bool> Relay::enter(const Operand& operand, Fence& fence, const Chunk& now) {
    const auto pool = static_cast<size_t>(plan_.pool);
    Edge edge = Edge::kForward;
    uint64_t value = now.value;
    if (side_ == Side::kFill) {
        if (now.number < kRelayBuffers)
            return true; // the buffer's first use
        if (link_.out.control().relay_drained[pool].load(std::memory_order_acquire) + kRelayBuffers <= now.number)
            return false;
        edge = Edge::kBackward;
        value -= kStep;
    } else if (link_.in.control().relay_filled[pool].load(std::memory_order_acquire) <= now.number) {
        return false;
    } else if (plan_.pool == Pool::kSlab && !link_.peer_slab_handle) {
        return false; // its record is still on the way
    }
    if (operand.by_cpu()) {
        GPURUN_ASSIGN(const bool free, reached_alive(fence, edge, now.slot, value));
        if (!free)
            blocked_on_ = Awaited::edge_of(&fence, edge, now.slot, value);
        return free;
    }
    device::Times* const first_of = moved_ == 0 ? times_ : nullptr;
    GPURUN_TRY(write_time(context_.device, operand.stream, first_of, &device::Times::began));
    GPURUN_TRY(fence.await(edge, now.slot, value, operand.stream));
    auto& in_flight = side_ == Side::kFill ? link_.awaiting_backward : link_.awaiting_forward;
    in_flight[now.slot] = InFlight{operand.stream, value};
    return true;
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
