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
    const bool in_place = input.address == result.address;
    const bool keeps_own = contributors == 1 && !exclusive; // which is the result: nothing is to be reduced
    (void)add_contributions(schedule, {reduction, Parts::listed(input, std::move(parts)),
                                       keeps_own ? Schedule::Buffer{} : result, contributors, input.bytes, in_place});
    if (keeps_own && !in_place)
        schedule.copy(result, input);
}

} // namespace gpurun::comm
