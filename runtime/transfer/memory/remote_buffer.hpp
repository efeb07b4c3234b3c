// Where a sender's buffer lies, as it tells its receiver: plain bytes, sent as they are.
#pragma once

#include "device/device.hpp"
#include "transfer/loan_kind.hpp"

namespace gpurun::transfer {

// Whose process the allocation's handle is of.
enum class Exporter : uint8_t {
    kNone,   // there is no handle
    kSender, // who tells of the buffer
    kOwner,  // of a loan that is lent on: the rank whose memory it is (LoanOrigin)
};

struct RemoteBuffer {
    device::Placement placement{};
    Exporter exporter = Exporter::kNone;
    bool ready = false;            // it may be used at once: the sender's call was in the host's order
    bool in_pieces = false;        // what is mapped of its allocation may overlap (device::Buffer)
    bool bounces = false;          // a copy of the sender's buffer, on the device
    Loan loan{};                   // if it is lent
    device::MemoryHandle handle{}; // if there is one, as the next four
    uint64_t allocation_id = 0;
    uint64_t allocation_base = 0; // address in the exporter's process
    uint64_t allocation_bytes = 0;
    uint64_t offset = 0;  // of the message in the allocation
    uint64_t address = 0; // of the message: used when a rank sends to itself, or a CPU reads the sender's memory

    bool exportable() const { return exporter != Exporter::kNone; }
    bool needs_descriptors() const { return exportable() && (in_pieces || in_host_memory()); } // of its process
    bool in_host_memory() const {
        return placement == device::Placement::kPageable || placement == device::Placement::kPinned;
    }
};
static_assert(sizeof(RemoteBuffer) == 112);

} // namespace gpurun::transfer
