// Barrier by dissemination: in round k a rank tells the rank 2^k after it that it, and all that have told it, are
// there. What the messages carry is of no use; on a stream what follows waits for every rank's order domain.
#pragma once

#include "comm/schedule.hpp"

namespace gpurun::comm {

// `by_mail`: a message of some bytes is a mail, and takes one kernel; one of none takes several operations of the
// stream.
inline void build_barrier(Schedule& schedule, bool by_mail) {
    constexpr size_t kMailBytes = 8;
    const Schedule::Buffer given = by_mail ? schedule.scratch(kMailBytes) : Schedule::Buffer();
    const Schedule::Buffer got = by_mail ? schedule.scratch(kMailBytes) : Schedule::Buffer();
    const Communicator& comm = schedule.comm();
    const int size = comm.size();
    std::optional<Schedule::StepId> told; // in the round before
    for (int distance = 1, round = 0; distance < size; distance *= 2, ++round) {
        const Rank to{(comm.rank().value + distance) % size};
        const Rank from{(comm.rank().value - distance + size) % size};
        told ? schedule.send(to, round, given, {*told}) : schedule.send(to, round, given);
        told = told ? schedule.receive(from, round, got, {*told}) : schedule.receive(from, round, got);
    }
}

} // namespace gpurun::comm
