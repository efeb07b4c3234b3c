#include "transfer/protocol/pieces.hpp"

#include "transfer/protocol/inline.hpp"
#include "transfer/receive.hpp"
#include "transfer/send.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::transfer {

using base::Result;

namespace {

constexpr Route kRoute{PiecesSend::kProtocol, 0};

size_t pieces_of(uint64_t bytes) { return (bytes + kEagerPiece - 1) / kEagerPiece; }

// What is no longer than an inline message has found no credit for that, and waits at its source.
bool fits(const Send& send) {
    const Operand& from = send.operand();
    return !send.synchronous() && from.by_cpu() && !send.target().channel().shares_memory() &&
           from.bytes > send.target().part<InlinePart>().most() && from.bytes <= kMostInPieces;
}

} // namespace

// ------------------------------------------------------------------------------------------------------- source

// The first piece crosses with the record, the others while the target matches that.
Result<Posted> PiecesSend::post(Send& send) {
    if (pieces_ == 0 && !fits(send))
        return Posted::kNot;
    GPURUN_ASSIGN(Fence * fence, send.target().fence_out());
    if (pieces_ == 0) {
        GPURUN_ASSIGN(const bool taken, take_slots(send, *fence));
        if (!taken)
            return Posted::kNot;
        GPURUN_TRY(fill_next(send, *fence));
    }
    Record record(RecordKind::kMessage, kProtocol);
    record.envelope = send.envelope();
    if (!send.publish(record.with(slots_), kRoute))
        return Posted::kNoRoom;
    while (filled_ < pieces_) {
        GPURUN_TRY(fill_next(send, *fence));
        send.target().channel().push();
    }
    send.finish();
    return Posted::kYes;
}

Result<bool> PiecesSend::take_slots(Send& send, Fence& fence) {
    const size_t pieces = pieces_of(send.operand().bytes);
    GPURUN_ASSIGN(const bool taken, send.target().part<EagerPart>().buffers.take_all(
                                        fence, std::span(slots_).first(pieces), kPieceBuffers));
    if (taken)
        pieces_ = pieces;
    return taken;
}

Result<void> PiecesSend::fill_next(Send& send, Fence& fence) {
    PeerChannel& channel = send.target().channel();
    const Operand& from = send.operand();
    const Slot& slot = slots_[filled_];
    const size_t offset = filled_ * kEagerPiece;
    const size_t bytes = std::min(kEagerPiece, from.bytes - offset);
    GPURUN_ASSIGN(std::byte* const buffer, channel.eager_buffer(Direction::kOut, slot.index, false));
    std::memcpy(buffer, from.address + offset, bytes);
    fence.signal_now(Edge::kForward, slot);
    channel.relay_buffer_filled(PeerChannel::kEagerWindow, slot.index, bytes, slot);
    ++filled_;
    return {};
}

// ------------------------------------------------------------------------------------------------------- target

Result<void> PiecesReceive::start(Receive& receive, const Arrival& arrival) {
    const uint64_t bytes = arrival.record.envelope.bytes;
    receive.count(kRoute, bytes);
    slots_ = arrival.record.as<PieceSlots>();
    pieces_ = pieces_of(bytes);
    return advance(receive);
}

// A receive in a stream, or of device memory, is enqueued once all have come.
Result<void> PiecesReceive::advance(Receive& receive) {
    GPURUN_ASSIGN(Fence * fence, receive.source().fence_in());
    const Operand& into = receive.operand();
    for (; come_ < pieces_; ++come_) {
        GPURUN_ASSIGN(const bool has_come, fence->reached_alive(Edge::kForward, slots_[come_]));
        if (!has_come)
            return {};
        if (!into.by_cpu())
            continue;
        if (const size_t bytes = bytes_of(receive, come_); bytes != 0) {
            GPURUN_ASSIGN(const std::byte* const from, buffer(receive, come_));
            std::memcpy(into.address + come_ * kEagerPiece, from, bytes);
        }
    }
    if (!into.by_cpu())
        return take_in_stream(receive, *fence);
    give_back(*fence);
    receive.finish();
    return {};
}

// All at once, which is one frame.
void PiecesReceive::give_back(Fence& fence) const {
    for (size_t piece = 0; piece < pieces_; ++piece)
        fence.signal_now(Edge::kBackward, slots_[piece]);
}

std::optional<CompletionPoint> PiecesReceive::blocked_on(const Receive& receive) const {
    if (come_ == pieces_)
        return std::nullopt;
    return CompletionPoint::at(*receive.source().channel().open_fence(Direction::kIn), Edge::kForward, slots_[come_]);
}

Result<void> PiecesReceive::take_in_stream(Receive& receive, Fence& fence) {
    if (receive.bytes() == 0) {
        give_back(fence);
        return receive.end_in_place();
    }
    GPURUN_TRY(receive.take_stream(false)); // the bytes are here
    const Operand& into = receive.operand();
    device::Device& device = receive.device();
    device::Times* const times = receive.stream_times();
    GPURUN_TRY(write_time(device, into.stream, times, &device::Times::moving));
    for (size_t piece = 0; piece < pieces_; ++piece) {
        if (const size_t bytes = bytes_of(receive, piece); bytes != 0) {
            GPURUN_ASSIGN(const std::byte* const from, buffer(receive, piece));
            GPURUN_TRY(copy_in_stream(receive.resources(), into, into.address + piece * kEagerPiece, from, bytes,
                                      into.stream));
        }
        GPURUN_TRY(fence.signal(Edge::kBackward, slots_[piece], into.stream));
    }
    GPURUN_TRY(write_time(device, into.stream, times, &device::Times::done));
    return receive.end_behind(fence, Edge::kBackward, slots_[pieces_ - 1], into.stream);
}

size_t PiecesReceive::bytes_of(const Receive& receive, size_t piece) const {
    const size_t offset = piece * kEagerPiece;
    return receive.bytes() > offset ? std::min(kEagerPiece, receive.bytes() - offset) : 0;
}

Result<std::byte*> PiecesReceive::buffer(Receive& receive, size_t piece) const {
    return receive.source().channel().eager_buffer(Direction::kIn, slots_[piece].index, !receive.operand().by_cpu());
}

} // namespace gpurun::transfer
