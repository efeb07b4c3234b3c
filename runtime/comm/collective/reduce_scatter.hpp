// Reduce-scatter: each rank gets the reduction of its part.
#pragma once

#include "comm/collective/contributions.hpp"

namespace gpurun::comm {

// `longest` is the length of the longest part. In place, the result is the beginning of the input, which has parts of
// others: so it comes there once these have been sent.
inline void build_reduce_scatter(Schedule& schedule, const base::Reduction& reduction, const Parts& input,
                                 const Schedule::Buffer& result, size_t longest, bool in_place) {
    const Schedule::Buffer reduced = in_place ? schedule.scratch(result.bytes) : result;
    Contributed done = add_contributions(schedule, {reduction, input, reduced, schedule.comm().size(), longest, false});
    if (!in_place || result.bytes == 0)
        return;
    done.sent.insert(done.sent.end(), done.reduced.begin(), done.reduced.end());
    schedule.copy(result, reduced, done.sent);
}

} // namespace gpurun::comm
