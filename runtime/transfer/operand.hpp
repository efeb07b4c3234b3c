// One side's buffer and order domain.
#pragma once

#include "device/device.hpp"

namespace gpurun::transfer {

enum class Domain : uint8_t {
    kHost,   // GPURUN_HOST: the calling thread
    kStream, // a stream
    kGraph,  // a stream that is captured: what is enqueued runs whenever the graph does
};

struct Operand {
    std::byte* address = nullptr; // not written by a sender
    size_t bytes = 0;
    device::Buffer where;
    Domain domain = Domain::kHost;
    device::Stream stream; // unless kHost

    // The same buffer in another order.
    Operand in_stream(device::Stream other) const {
        Operand operand = *this;
        operand.domain = Domain::kStream;
        operand.stream = other;
        return operand;
    }
    // Its order domain alone.
    Operand without_bytes() const {
        Operand operand;
        operand.domain = domain;
        operand.stream = stream;
        return operand;
    }
    bool on_stream() const { return domain != Domain::kHost; }
    bool captured() const { return domain == Domain::kGraph; }
    bool in_host_memory() const {
        return where.placement == device::Placement::kPageable || where.placement == device::Placement::kPinned;
    }
    // Whether streams and kernels of the rank's device reach it.
    bool by_device() const {
        return where.placement != device::Placement::kPageable && where.placement != device::Placement::kElsewhere;
    }
    // Whether kernels and copy engines of other ranks may be given it where it is.
    bool is_mappable() const { return where.exportable && !in_host_memory(); }
    bool on_other_device() const { return where.placement == device::Placement::kElsewhere; }
    // Whether the CPU itself copies, inside the call: host memory in the host's order.
    bool by_cpu() const { return !on_stream() && in_host_memory(); }
};

// How the end of a message is ordered with its operand's stream (with GPURUN_HOST both are the same).
enum class Ending : uint8_t {
    kInStream,     // what follows in the stream comes after the message: blocking calls
    kTogether,     // the same, of a call that is made together with others: none of them waits for another
    kOfCollective, // the same, from several ranks at a time
    kKept,         // the same, of a receive: the message may stay with its source, too, until it is reduced
    kKeptMail,     // the same, but only a mail may stay where it is
    kByCompletion, // the stream goes on; whatever the message is completed into comes after it: requests
};

// What becomes of a message of a collective at its target.
enum class Reduced : uint8_t {
    kNot,
    kThere,    // the target reduces it
    kInTrade,  // and this rank what others send meanwhile
    kPassedOn, // and the target sends others what it makes of it
};

} // namespace gpurun::transfer
