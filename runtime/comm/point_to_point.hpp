// Blocking messages between two ranks, in either order domain.
#pragma once

#include "comm/engine.hpp"

namespace gpurun::comm {

// Ranks and tags have been checked. PROC_NULL is no rank here.
base::Result<void> send(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int dest, int tag,
                        bool synchronous = false);
base::Result<Arrived> recv(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int source,
                           int tag);

// Of a probed message, by its number.
base::Result<Arrived> recv_taken(Engine& engine, const transfer::Operand& buffer, uint64_t number);

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

// The same buffer in both: its contents are sent from a copy. kMemory if there is no room for one.
base::Result<Arrived> sendrecv_replace(Engine& engine, const Communicator& comm, const Outbound& out,
                                       const Inbound& in);

// Copies inside this rank, for pairs of buffers that no stream can copy directly (pageable memory and a device).
base::Result<void> copy(Engine& engine, const transfer::Operand& destination, const transfer::Operand& source);

} // namespace gpurun::comm
