#include "comm/point_to_point.hpp"

namespace gpurun::comm {

using base::Result;
using transfer::Ending;
using transfer::Envelope;
using transfer::Operand;
using transfer::Outgoing;
using transfer::SendMode;

namespace {

Arrived arrived(const Receive& receive) {
    return Arrived{receive.source, receive.envelope.tag, static_cast<size_t>(receive.envelope.bytes)};
}

} // namespace

Result<void> send(Engine& engine, const Communicator& comm, const Operand& buffer, int dest, int tag,
                  bool synchronous) {
    const Envelope envelope{comm.user_context(), tag, buffer.bytes};
    const SendMode mode{Ending::kInStream, synchronous};
    if (engine.send_small(dest, buffer, envelope, mode))
        return {};
    Outgoing outgoing(engine.context(), engine.link(dest), buffer, envelope, mode);
    Outgoing* const sends[] = {&outgoing};
    return engine.complete(sends, nullptr);
}

Result<Arrived> recv(Engine& engine, const Communicator& comm, const Operand& buffer, int source, int tag) {
    const Pattern pattern{comm.user_context(), source, tag};
    Arrived at_once;
    if (buffer.by_cpu() && buffer.bytes <= engine.longest_short() && source != kAnySource &&
        engine.receive_short(pattern, {buffer.address, buffer.bytes}, at_once))
        return at_once;
    Receive receive(engine.context(), buffer, pattern, false);
    GPURUN_TRY(engine.complete({}, &receive));
    return arrived(receive);
}

Result<Arrived> recv_taken(Engine& engine, const Operand& buffer, uint64_t number) {
    Receive receive(engine.context(), buffer, Pattern{}, false);
    GPURUN_TRY(engine.receive_taken(number, receive));
    return arrived(receive);
}

Result<Arrived> sendrecv(Engine& engine, const Communicator& comm, const Outbound& out, const Inbound& in) {
    if (out.dest == kProcNull && in.source == kProcNull)
        return Arrived{};
    if (in.source == kProcNull) {
        GPURUN_TRY(send(engine, comm, out.buffer, out.dest, out.tag));
        return Arrived{};
    }
    if (out.dest == kProcNull)
        return recv(engine, comm, in.buffer, in.source, in.tag);
    GPURUN_TRY(engine.check_captured(out.dest, out.buffer));
    GPURUN_TRY(engine.check_captured(in.source, in.buffer));
    // What a graph's send still has to wait for comes behind the receive in the stream.
    const SendMode mode{out.buffer.captured ? Ending::kJoined : Ending::kInStream, false};
    Outgoing outgoing(engine.context(), engine.link(out.dest), out.buffer,
                      Envelope{comm.user_context(), out.tag, out.buffer.bytes}, mode);
    Outgoing* const sends[] = {&outgoing};
    Receive receive(engine.context(), in.buffer, Pattern{comm.user_context(), in.source, in.tag}, true);
    GPURUN_TRY(engine.complete(sends, &receive));
    if (out.buffer.captured)
        GPURUN_TRY(engine.join(outgoing, out.buffer.stream));
    return arrived(receive);
}

Result<void> copy(Engine& engine, const Operand& destination, const Operand& source) {
    const auto self = static_cast<int>(engine.rank());
    Outgoing outgoing(engine.context(), engine.link(self), source, Envelope{kCopyContext, 0, source.bytes});
    Outgoing* const sends[] = {&outgoing};
    Receive receive(engine.context(), destination, Pattern{kCopyContext, self, 0}, true);
    return engine.complete(sends, &receive);
}

} // namespace gpurun::comm
