// Blocking messages and collectives: from the arguments of a call to operations and schedules.
#pragma once

#include "comm/engine.hpp"

namespace gpurun::comm {

// REQUIRES: ranks and tags have been checked, and no rank is PROC_NULL unless it says so. `call` is as in Send::Mode.
struct SendOptions {
    bool synchronous = false;
    platform::TraceEvent* call = nullptr;
};
base::Result<void> send_and_wait(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int dest,
                                 int tag, const SendOptions& options);
inline base::Result<void> send(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int dest,
                               int tag, const SendOptions& options = {}) {
    if (!options.synchronous && transfer::goes_inline(engine.resources().settings, buffer) &&
        engine.messages().send_now(comm.group().world(Rank{dest}), buffer.address,
                                   {comm.user_context(), tag, buffer.bytes}, options.call))
        return {};
    return send_and_wait(engine, comm, buffer, dest, tag, options);
}
base::Result<void> recv_and_wait(Engine& engine, const transfer::Operand& buffer, const Pattern& pattern,
                                 platform::TraceEvent* call, Arrived& ret_arrived);
inline base::Result<void> recv(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int source,
                               int tag, platform::TraceEvent* call, Arrived& ret_arrived) {
    const Pattern pattern = Pattern::of(comm.group(), comm.user_context(), source, tag);
    if (transfer::goes_inline(engine.resources().settings, buffer) && !pattern.any_source &&
        engine.messages().receive_now(pattern, {buffer.address, buffer.bytes}, ret_arrived))
        return {};
    const CommunicatorUse use(comm);
    return recv_and_wait(engine, buffer, pattern, call, ret_arrived);
}
// Receives a message that a probe has taken, by its number.
base::Result<Arrived> recv_taken(Engine& engine, const Communicator& comm, const transfer::Operand& buffer,
                                 uint64_t number, platform::TraceEvent* call);

struct Outbound {
    transfer::Operand buffer;
    int dest;
    int tag;
};
struct Inbound {
    transfer::Operand buffer;
    int source;
    int tag;
};
// Either side may be PROC_NULL.
base::Result<Arrived> sendrecv(Engine& engine, const Communicator& comm, const Outbound& out, const Inbound& in);

// Sends and receives in one buffer: its contents are sent from a copy. kMemory if there is no room for that.
base::Result<Arrived> sendrecv_replace(Engine& engine, const Communicator& comm, const Outbound& out,
                                       const Inbound& in);

// A copy inside this rank, made as a message: for buffers that no stream can copy directly (pageable and device
// memory).
base::Result<void> copy(Engine& engine, const Communicator& comm, const transfer::Operand& destination,
                        const transfer::Operand& source);

} // namespace gpurun::comm
