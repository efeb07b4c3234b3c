// One side's buffer and order domain, and how its bytes are copied in that order.
#pragma once

#include "transfer/context.hpp"

#include <cstring>

namespace gpurun::transfer {

struct Operand {
    std::byte* address = nullptr; // not written by a sender
    size_t bytes = 0;
    device::Buffer where;
    bool on_stream = false; // else GPURUN_HOST
    bool captured = false;  // with on_stream: into a graph
    device::Stream stream;  // with on_stream; else an internal one once `needs_stream()` copies begin

    bool in_host_memory() const {
        return where.placement == device::Placement::kPageable || where.placement == device::Placement::kPinned;
    }
    // Streams and kernels of the rank's device reach it.
    bool by_device() const {
        return where.placement != device::Placement::kPageable && where.placement != device::Placement::kElsewhere;
    }
    bool elsewhere() const { return where.placement == device::Placement::kElsewhere; }
    // The CPU itself copies, inside the call: host memory in the host's order.
    bool by_cpu() const { return !on_stream && in_host_memory(); }
};

// How the end of a message is ordered with its operand's stream (with GPURUN_HOST both are the same).
enum class Ending {
    kInStream, // what follows in the stream comes after the message: blocking calls
    kJoined,   // the stream goes on; whoever calls join() comes after the message: requests
};

// Copies between `operand`'s memory and a pinned host buffer, in the operand's order: at once by the CPU, or
// enqueued. REQUIRES: operand.by_cpu() or operand.stream is set.
inline base::Result<void> copy_through_host(Context& context, const Operand& operand, void* destination,
                                            const void* source, size_t bytes) {
    if (bytes == 0)
        return {};
    if (operand.by_cpu()) {
        std::memcpy(destination, source, bytes);
        return {};
    }
    if (operand.elsewhere())
        return context.device.copy_elsewhere(destination, source, bytes, operand.stream);
    if (operand.in_host_memory())
        return context.host_copies.enqueue(context.device, operand.stream, destination, source, bytes);
    return context.device.copy(destination, source, bytes, operand.stream);
}

// An internal stream for the message's work, unless it has one (`borrowed`): it starts at the operand's place, which is
// not kept any more, or where its stream is now, and is the operand's from then on.
base::Result<void> borrow_stream(Context& context, Operand& operand, std::optional<Place>& place, bool waits_for_peer,
                                 std::optional<device::Stream>& borrowed);

} // namespace gpurun::transfer
