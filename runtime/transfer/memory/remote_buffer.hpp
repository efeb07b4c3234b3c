// Where a sender's buffer lies, as it tells its receiver: plain bytes, sent as they are.
#pragma once

#include "device/device.hpp"
#include "transfer/loan_kind.hpp"

namespace gpurun::transfer {

struct RemoteBuffer {
    device::Placement placement{};
    uint8_t exportable = 0;
    uint8_t ready = 0;             // a CPU may read it at once: host memory in the host's order
    Loan loan{};                   // if it is lent
    device::MemoryHandle handle{}; // with exportable, as the next four
    uint64_t allocation_id = 0;
    uint64_t allocation_base = 0; // address in the sender's process
    uint64_t allocation_bytes = 0;
    uint64_t offset = 0;  // of the message in the allocation
    uint64_t address = 0; // of the message: used when a rank sends to itself, or a CPU reads the sender's memory

    bool in_host_memory() const {
        return placement == device::Placement::kPageable || placement == device::Placement::kPinned;
    }
};
static_assert(sizeof(RemoteBuffer) == 112);

} // namespace gpurun::transfer
