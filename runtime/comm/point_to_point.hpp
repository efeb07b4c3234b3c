// Blocking messages between two ranks, in either order domain.
#pragma once

#include "comm/engine.hpp"

namespace gpurun::comm {

struct Arrived {
    int source = kProcNull;
    int tag = kAnyTag;
    size_t bytes = 0; // the message's true length: more than the buffer's if it was truncated
};

// Ranks and tags have been checked. PROC_NULL is no rank here.
base::Result<void> send(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int dest, int tag);
base::Result<Arrived> recv(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int source,
                           int tag);

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

// Copies inside this rank, for pairs of buffers that no stream can copy directly (pageable memory and a device).
base::Result<void> copy(Engine& engine, const transfer::Operand& destination, const transfer::Operand& source);

} // namespace gpurun::comm
