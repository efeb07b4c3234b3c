#include "transfer/protocol/eager.hpp"

#include "transfer/protocol/exchanged_sends.hpp"
#include "transfer/receive.hpp"
#include "transfer/send.hpp"

namespace gpurun::transfer {

using base::Result;

namespace {

Route route_to(const Peer& peer) { return {EagerPart::kProtocol, static_cast<uint8_t>(peer.to_self() ? 1 : 0)}; }

// A forced path (GPURUN_PATH=direct, bounce) takes device messages of all sizes, except those without bytes. And only a
// rendezvous tells where an answer is wanted. What this rank takes itself in the same call needs no buffer between: one
// copy in the stream does.
bool fits(const Send& send) {
    const base::Settings& settings = send.resources().settings;
    const Operand& from = send.operand();
    if (send.synchronous() || from.by_cpu() || (send.place_of_answer() && may_be_reduced(send)))
        return false;
    if (send.has_receive_beside() && send.ends_together() && from.by_device() && from.bytes != 0)
        return false;
    const bool forced = settings.path == base::PathChoice::kDirect || settings.path == base::PathChoice::kBounce;
    if (forced && !from.in_host_memory() && !send.target().to_self())
        return from.bytes == 0;
    return from.bytes <= settings.device_eager_bytes;
}

} // namespace

Result<Posted> EagerSend::post(Send& send) {
    if (!slot_.valid && !fits(send))
        return Posted::kNot;
    GPURUN_ASSIGN(Fence * fence, send.target().fence_out());
    if (!slot_.valid) {
        GPURUN_ASSIGN(const std::optional<Slot> taken, send.target().part<EagerPart>().buffers.take(*fence));
        if (!taken)
            return Posted::kNot;
        slot_ = *taken;
    }
    GPURUN_TRY(send.take_stream(false));
    if (!filled_)
        GPURUN_TRY(fill(send, *fence));
    Record record(RecordKind::kMessage, kProtocol);
    record.envelope = send.envelope();
    if (!send.publish(record.with(slot_), route_to(send.target())))
        return Posted::kNoRoom;
    send.end_at(CompletionPoint::at(*fence, Edge::kForward, slot_));
    return Posted::kYes;
}

Result<void> EagerSend::fill(Send& send, Fence& fence) {
    const Operand& from = send.operand();
    const device::Stream stream = from.stream;
    device::Times* times = nullptr;
    if (from.bytes != 0) {
        GPURUN_ASSIGN(std::byte* const buffer,
                      send.target().channel().eager_buffer(Direction::kOut, slot_.index, true));
        times = send.stream_times();
        GPURUN_TRY(write_time(send.device(), stream, times, &device::Times::moving));
        GPURUN_TRY(copy_in_stream(send.resources(), from, buffer, from.address, from.bytes, stream));
    }
    GPURUN_TRY(fence.signal(Edge::kForward, slot_, stream));
    send.target().channel().relay_buffer_filled(PeerChannel::kEagerWindow, slot_.index, from.bytes, slot_);
    GPURUN_TRY(write_time(send.device(), stream, times, &device::Times::done));
    send.note_own_stream();
    filled_ = true;
    return {};
}

Result<void> EagerReceive::start(Receive& receive, const Arrival& arrival) {
    receive.count(route_to(receive.source()), arrival.record.envelope.bytes);
    const Slot slot = arrival.record.as<Slot>();
    From from;
    if (receive.bytes() != 0) {
        GPURUN_ASSIGN(from.address,
                      receive.source().channel().eager_buffer(Direction::kIn, slot.index, !receive.operand().by_cpu()));
    }
    return copy(receive, from, slot, false);
}

} // namespace gpurun::transfer
