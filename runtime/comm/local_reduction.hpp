// A reduction inside this rank, in an order domain: by the CPU, by a stream of the device, or, where that cannot reach
// the buffers or has no such capability, by the CPU in copies that a stream makes.
//
// Used under the engine lock.
#pragma once

#include "transfer/resources.hpp"

#include <span>

namespace gpurun::comm {

struct LocalReduction {
    base::Reduction reduction;
    size_t count = 0;
    const transfer::Operand& result; // may be one of the operands
    std::span<const transfer::Operand> operands;
};

// In the host's order: what has it done if it has an event, which may not have come yet; else it is done. In a stream
// it is enqueued. kUnsupported if it cannot be captured.
base::Result<transfer::EventLease> reduce_here(transfer::Resources& resources, const transfer::Operand& order,
                                               const LocalReduction& work);

} // namespace gpurun::comm
