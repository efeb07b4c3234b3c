#include "transfer/protocol/relay_pipeline.hpp"

#include "transfer/protocol/relay_part.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::transfer {

using base::Result;
using platform::kRelayBufferBytes;
using platform::kRelayBuffers;

namespace {

constexpr uint64_t kSmallestChunk = 64 * 1024;
constexpr uint64_t kPieces = 8;

// In whole units.
RelayPlan plan_chunks(RelayPool pool, uint64_t bytes, uint64_t wanted, uint64_t unit, uint64_t largest_chunk) {
    const uint64_t even = (wanted + unit - 1) / unit * unit;
    const uint64_t chunk = std::clamp<uint64_t>(even, kSmallestChunk, kRelayBufferBytes);
    return RelayPlan{pool, 0, bytes, std::min(chunk, largest_chunk)};
}

} // namespace

RelayPlan plan_relay(RelayPool pool, Copiers copiers, uint64_t bytes, uint64_t largest_chunk) {
    constexpr uint64_t kOfCpus = 256 * 1024;
    constexpr uint64_t kOfStreams = 1024 * 1024;
    const uint64_t piece = (bytes + kPieces - 1) / kPieces;
    uint64_t wanted = 0;
    switch (copiers) {
    case Copiers::kCpus: wanted = std::min(piece, kOfCpus); break;
    case Copiers::kCpuAndStream: wanted = std::max(piece, kOfCpus); break;
    case Copiers::kStreams: wanted = std::max((bytes + kRelayBuffers - 1) / kRelayBuffers, kOfStreams); break;
    case Copiers::kWithinDevice: wanted = kRelayBufferBytes; break;
    }
    return plan_chunks(pool, bytes, wanted, kSmallestChunk, largest_chunk);
}

// In as many chunks as there are buffers, so that none waits for the other side, until these are large. Behind another
// message, which the buffers are full of meanwhile, in as few as possible.
RelayPlan plan_far_relay(uint64_t bytes, uint64_t largest_chunk, bool is_behind) {
    constexpr uint64_t kLarge = 512 * 1024;
    constexpr uint64_t kPage = 4096;
    const uint64_t fewest = is_behind ? bytes : bytes / kRelayBuffers;
    const uint64_t wanted = std::max(bytes / kPieces, std::min(fewest, kLarge));
    return plan_chunks(RelayPool::kHost, bytes, wanted, kPage, largest_chunk);
}

RelayPart& RelayPipeline::part() const { return peer_.part<RelayPart>(); }

RelayPipeline::Chunk RelayPipeline::next_chunk() const {
    const uint64_t number = part().chunks(plan_.window, direction());
    const auto buffer = static_cast<uint32_t>(number % kRelayBuffers);
    const auto index = static_cast<uint16_t>(plan_.window * kRelayBuffers + buffer);
    const uint64_t offset = moved_ * plan_.chunk_bytes;
    return Chunk{number,
                 buffer,
                 Slot{SlotClass::kRelay, true, index, 0, (number / kRelayBuffers + 1) * kSlotStep},
                 offset,
                 std::min(plan_.chunk_bytes, plan_.bytes - offset),
                 moved_ == 0,
                 moved_ + 1 == plan_.chunks()};
}

Result<bool> RelayPipeline::step(const Operand& operand) {
    GPURUN_ASSIGN(Fence * fence, peer_.channel().fence(direction()));
    blocked_on_.reset();
    if (copy_error_ && copies_)
        return false;
    while (moved_ < plan_.chunks()) {
        GPURUN_ASSIGN(const bool stepped, step_one(operand, *fence));
        if (!stepped)
            return false;
    }
    return true;
}

// ------------------------------------------------------------------------------------------------- several streams

// Not for copies by host functions, which run one at a time whatever the stream.
Result<void> RelayPipeline::take_streams(const Operand& operand) {
    const bool by_host_function = operand.in_host_memory() && plan_.pool == RelayPool::kHost;
    if (by_host_function || plan_.chunks() < kLeastChunksInStreams)
        return {};
    if (plan_.pool == RelayPool::kDevice)
        return resources_.place.ranks_on_device == 1 ? part_streams(operand) : Result<void>();
    GPURUN_ASSIGN(signals_, resources_.pools.streams.take_spare()); // it starts with the first signal
    return {};
}

Result<void> RelayPipeline::part_streams(const Operand& operand) {
    while (parted_ < borrowed_.size()) {
        GPURUN_ASSIGN(const std::optional<device::Stream> spare, resources_.pools.streams.take_spare());
        if (!spare) {
            give_streams_back(InternalStreams::State::kWaiting, {});
            return {};
        }
        borrowed_[parted_++] = *spare;
        GPURUN_TRY(resources_.pools.events.order(operand.stream, *spare));
    }
    return {};
}

// The stream for the signal behind a copy.
Result<device::Stream> RelayPipeline::stream_of_signal(device::Stream copies, bool is_last) {
    if (is_last || !signals_)
        return copies;
    GPURUN_TRY(resources_.pools.events.order(copies, *signals_));
    return *signals_;
}

device::Stream RelayPipeline::stream_of_next(device::Stream own) const {
    const size_t turn = (plan_.chunks() - 1 - moved_) % (parted_ + 1);
    return turn == 0 ? own : borrowed_[turn - 1];
}

Result<void> RelayPipeline::join_streams(device::Stream own) {
    for (size_t i = 0; i < parted_; ++i)
        GPURUN_TRY(resources_.pools.events.order(borrowed_[i], own));
    return signals_ ? resources_.pools.events.order(*signals_, own) : Result<void>();
}

void RelayPipeline::give_streams_back(InternalStreams::State state, const StreamEnd& end) {
    while (parted_ > 0)
        resources_.pools.streams.give_back(borrowed_[--parted_], state, end);
    if (signals_)
        resources_.pools.streams.give_back(*std::exchange(signals_, std::nullopt), state, end);
}

// The operand's stream waits for the borrowed ones, even if they may be blocked for ever: then it would have been
// blocked without them, too. A device that fails here has nothing left to copy.
void RelayPipeline::give_up(const Operand& operand) {
    using State = InternalStreams::State;
    (void)join_streams(operand.stream);
    give_streams_back(resources_.releases_streams() ? State::kWaiting : State::kStuck, {});
}

// ------------------------------------------------------------------------------------------------------- one chunk

Result<bool> RelayPipeline::step_one(const Operand& operand, Fence& fence) {
    const Chunk chunk = next_chunk();
    if (!entered_) {
        GPURUN_ASSIGN(entered_, enter(operand, fence, chunk));
        if (!entered_)
            return false;
    }
    const device::Stream stream = stream_of_next(operand.stream);
    GPURUN_ASSIGN(const bool moved, move(operand, fence, chunk, stream));
    if (!moved)
        return false;
    entered_ = false;
    last_slot_ = chunk.slot;
    if (chunk.is_last)
        give_streams_back(InternalStreams::State::kWaiting,
                          fence.edges_last() ? StreamEnd{&fence.counter(own_edge(), chunk.slot), chunk.slot.value}
                                             : StreamEnd{});
    ++moved_;
    note_enqueued(chunk);
    return true;
}

Result<bool> RelayPipeline::enter(const Operand& operand, Fence& fence, const Chunk& chunk) {
    GPURUN_ASSIGN(const bool may, may_enter(operand, fence, chunk));
    if (!may)
        return false;
    if (chunk.is_first)
        GPURUN_TRY(take_streams(operand));
    if (!operand.by_cpu())
        GPURUN_TRY(enter_stream(operand, fence, chunk, stream_of_next(operand.stream)));
    return true;
}

// False if it cannot be copied.
Result<bool> RelayPipeline::move(const Operand& operand, Fence& fence, const Chunk& chunk, device::Stream stream) {
    device::Device& device = resources_.device;
    GPURUN_TRY(write_time(device, stream, chunk.is_first ? times_ : nullptr, &device::Times::moving));
    if (copies_)
        if (auto copied = copy(operand, chunk, stream); !copied) {
            copy_error_ = std::make_unique<const base::Error>(std::move(copied).error());
            return false;
        }
    if (chunk.is_last)
        GPURUN_TRY(join_streams(stream));
    GPURUN_TRY(signal(operand, fence, chunk, stream));
    GPURUN_TRY(write_time(device, stream, chunk.is_last ? times_ : nullptr, &device::Times::done));
    return true;
}

Result<void> RelayPipeline::signal(const Operand& operand, Fence& fence, const Chunk& chunk, device::Stream stream) {
    if (operand.by_cpu()) {
        fence.signal_now(own_edge(), chunk.slot);
        return {};
    }
    GPURUN_ASSIGN(const device::Stream behind, stream_of_signal(stream, chunk.is_last));
    return fence.signal(own_edge(), chunk.slot, behind);
}

// The total tells the other side that the signal is enqueued; pairs with its may_enter().
void RelayPipeline::note_enqueued(const Chunk& chunk) {
    PeerChannel& channel = peer_.channel();
    if (role_ == Role::kFill && plan_.pool == RelayPool::kHost)
        channel.relay_buffer_filled(plan_.window, chunk.buffer, chunk.bytes, chunk.slot);
    part().set_chunks(plan_.window, direction(), chunk.number + 1);
    channel.set_total(direction(), role_ == Role::kFill ? relay_filled(plan_.window) : relay_drained(plan_.window),
                      chunk.number + 1);
    channel.notify(Notify::kAlways);
}

// None for a buffer's first use.
std::optional<RelayPipeline::Before> RelayPipeline::before(const Chunk& chunk) const {
    if (role_ == Role::kDrain)
        return Before{Edge::kForward, chunk.slot};
    if (chunk.number < kRelayBuffers)
        return std::nullopt;
    Slot last = chunk.slot;
    last.value -= kSlotStep;
    return Before{Edge::kBackward, last};
}

Result<bool> RelayPipeline::may_enter(const Operand& operand, Fence& fence, const Chunk& chunk) {
    const std::optional<Before> needed = before(chunk);
    if (!needed)
        return true;
    const PeerChannel& channel = peer_.channel();
    if (role_ == Role::kFill) {
        if (channel.total(Direction::kOut, relay_drained(plan_.window)) + kRelayBuffers <= chunk.number)
            return false;
    } else if (channel.total(Direction::kIn, relay_filled(plan_.window)) <= chunk.number) {
        return false;
    } else if (plan_.pool == RelayPool::kDevice && !part().knows_peer_slab(plan_.window)) {
        return false; // its record is still on the way
    }
    if (!operand.by_cpu())
        return true;
    GPURUN_ASSIGN(const bool free, fence.reached_alive(needed->edge, needed->slot));
    if (!free)
        blocked_on_ = CompletionPoint::at(fence, needed->edge, needed->slot);
    return free;
}

Result<void> RelayPipeline::enter_stream(const Operand& operand, Fence& fence, const Chunk& chunk,
                                         device::Stream stream) {
    const std::optional<Before> needed = before(chunk);
    if (!needed)
        return {};
    GPURUN_TRY(write_time(resources_.device, stream, chunk.is_first ? times_ : nullptr, &device::Times::began));
    GPURUN_TRY(fence.await(needed->edge, needed->slot, stream));
    GPURUN_TRY(follow_last_use(fence, chunk, stream));
    DependentStreams& dependents = role_ == Role::kFill ? peer_.awaiting_backward : peer_.awaiting_forward;
    dependents.note(needed->slot, operand.stream); // which joins the others
    return {};
}

// As long as the peer lives, its edge says that this rank's last use of the buffer is over. When it has died, its
// poison lets all streams go at once, and the edge of the last use must not be signalled behind that of this one:
// whoever waits for this one would miss it.
Result<void> RelayPipeline::follow_last_use(Fence& fence, const Chunk& chunk, device::Stream stream) {
    if (chunk.number < kRelayBuffers)
        return {};
    Slot last = chunk.slot;
    last.value -= kSlotStep;
    return fence.await(own_edge(), last, stream);
}

Result<void> RelayPipeline::copy(const Operand& operand, const Chunk& chunk, device::Stream stream) {
    std::byte* const own = operand.address + chunk.offset;
    std::byte* slab = nullptr;
    if (plan_.pool == RelayPool::kDevice) {
        GPURUN_ASSIGN(slab, role_ == Role::kFill ? part().slab(plan_.window) : part().peer_slab(plan_.window));
    }
    std::byte* buffer = nullptr;
    if (slab != nullptr) {
        buffer = slab + chunk.buffer * kRelayBufferBytes;
    } else {
        GPURUN_ASSIGN(buffer, peer_.channel().relay_buffer(direction(), plan_.window, chunk.buffer, !operand.by_cpu()));
    }
    void* const to = role_ == Role::kFill ? buffer : own;
    const void* const from = role_ == Role::kFill ? own : buffer;
    if (operand.by_cpu()) {
        std::memcpy(to, from, chunk.bytes);
        return {};
    }
    if (slab != nullptr)
        return resources_.device.copy(to, from, chunk.bytes, stream);
    return copy_in_stream(resources_, operand, to, from, chunk.bytes, stream);
}

} // namespace gpurun::transfer
