// Broadcast along a binomial tree: a rank receives from its parent, then serves all its children at once (where the
// target pulls, they do so from its buffer side by side).
#pragma once

#include "comm/schedule.hpp"

namespace gpurun::comm {

// Gives the message's true length; at the root nothing, since it receives none.
inline void build_bcast(Schedule& schedule, const Schedule::Buffer& buffer, Rank root) {
    const Communicator& comm = schedule.comm();
    const int size = comm.size();
    const int position = (comm.rank().value - root.value + size) % size; // in the tree, whose root is 0
    const auto rank_at = [&](int at) { return Rank{(at + root.value) % size}; };
    int reach = 1; // the lowest bit of the position: our children are position + 1, 2, 4 ... below it
    while (reach < size && (position & reach) == 0)
        reach <<= 1;
    if (position != 0)
        schedule.set_received(schedule.receive(rank_at(position - reach), 0, buffer));
    for (int step = reach >> 1; step > 0; step >>= 1) { // the child with the largest subtree first
        if (position + step >= size)
            continue;
        if (const auto received = schedule.received())
            schedule.pass_on(rank_at(position + step), 0, buffer, *received);
        else
            schedule.send(rank_at(position + step), 0, buffer);
    }
}

} // namespace gpurun::comm
