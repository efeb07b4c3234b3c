// Scans: each rank gets the reduction of what the ranks up to it contribute, or, exclusively, of those before it.
#pragma once

#include "comm/collective/contributions.hpp"

namespace gpurun::comm {

// An average is over the ranks that contribute. `input` is `result` where that is reduced in place.
inline void build_scan(Schedule& schedule, base::Reduction reduction, const Schedule::Buffer& input,
                       const Schedule::Buffer& result, bool exclusive) {
    const int self = schedule.comm().rank().value;
    const int contributors = exclusive ? self : self + 1;
    if (reduction.divisor != 0)
        reduction.divisor = static_cast<uint32_t>(contributors);
    std::vector<Parts::Part> parts(static_cast<size_t>(schedule.comm().size()), Parts::Part{0, 0});
    for (size_t rank = static_cast<size_t>(self); rank < parts.size(); ++rank)
        parts[rank].bytes = input.bytes;
    (void)add_contributions(schedule, {reduction, Parts::listed(input, std::move(parts)), result, contributors,
                                       input.bytes, input.address == result.address});
}

} // namespace gpurun::comm
