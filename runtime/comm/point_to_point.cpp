#include "comm/point_to_point.hpp"

#include "transfer/protocol/inline.hpp"

namespace gpurun::comm {

using base::Result;
using transfer::Ending;
using transfer::Envelope;
using transfer::Operand;
using transfer::Send;

namespace {

transfer::Peer& peer_of(Engine& engine, const Communicator& comm, int rank) {
    return engine.messages().peer(comm.group().world(Rank{rank}));
}

Pattern pattern_of(const Communicator& comm, int source, int tag) {
    return Pattern::of(comm.group(), comm.user_context(), source, tag);
}

// A send and a receive, which are made together.
Result<Arrived> exchange(Engine& engine, WorldRank to, const Envelope& envelope, const Operand& out,
                         const Pattern& pattern, const Operand& in) {
    Messages& messages = engine.messages();
    if (out.captured()) { // before either is begun
        GPURUN_TRY(messages.check_captured(to, out));
        GPURUN_TRY(messages.check_captured(pattern.source, in));
    }
    Send op(engine.resources(), messages.peer(to), out, envelope, {.ending = Messages::ending_together(out)});
    Send* const sends[] = {&op};
    LocalReceive home;
    PostedReceive receive(engine.resources(), home, in, pattern, {.ending = Messages::ending_together(in)});
    PostedReceive* const receives[] = {&receive};
    GPURUN_TRY(messages.complete(sends, receives));
    return receive.arrived();
}

} // namespace

Result<void> send_and_wait(Engine& engine, const Communicator& comm, const Operand& buffer, int dest, int tag,
                           const SendOptions& options) {
    const CommunicatorUse use(comm);
    Send op(engine.resources(), peer_of(engine, comm, dest), buffer, {comm.user_context(), tag, buffer.bytes},
            {Ending::kInStream, options.synchronous, options.call});
    Send* const sends[] = {&op};
    return engine.messages().complete(sends, {});
}

Result<void> recv_and_wait(Engine& engine, const Operand& buffer, const Pattern& pattern, platform::TraceEvent* call,
                           Arrived& ret_arrived) {
    LocalReceive home;
    PostedReceive receive(engine.resources(), home, buffer, pattern, {.call = call});
    PostedReceive* const receives[] = {&receive};
    GPURUN_TRY(engine.messages().complete({}, receives));
    ret_arrived = receive.arrived();
    return {};
}

Result<Arrived> recv_taken(Engine& engine, const Communicator& comm, const Operand& buffer, uint64_t number,
                           platform::TraceEvent* call) {
    const CommunicatorUse use(comm);
    LocalReceive home;
    PostedReceive receive(engine.resources(), home, buffer, pattern_of(comm, kAnySource, kAnyTag), {.call = call});
    GPURUN_TRY(engine.messages().receive_taken(number, receive));
    return receive.arrived();
}

Result<Arrived> sendrecv(Engine& engine, const Communicator& comm, const Outbound& out, const Inbound& in) {
    if (out.dest == kProcNull && in.source == kProcNull)
        return Arrived{};
    if (in.source == kProcNull) {
        GPURUN_TRY(send(engine, comm, out.buffer, out.dest, out.tag));
        return Arrived{};
    }
    if (out.dest == kProcNull) {
        Arrived arrived;
        GPURUN_TRY(recv(engine, comm, in.buffer, in.source, in.tag, nullptr, arrived));
        return arrived;
    }
    const CommunicatorUse use(comm);
    return exchange(engine, comm.group().world(Rank{out.dest}), {comm.user_context(), out.tag, out.buffer.bytes},
                    out.buffer, pattern_of(comm, in.source, in.tag), in.buffer);
}

Result<void> copy(Engine& engine, const Communicator& comm, const Operand& destination, const Operand& source) {
    GPURUN_TRY(exchange(engine, engine.self(), {kCopyContext, 0, source.bytes}, source,
                        Pattern::of(comm.group(), kCopyContext, comm.rank().value, 0), destination));
    return {};
}

} // namespace gpurun::comm
