// Barrier by dissemination: in round k a rank tells the rank 2^k after it that it, and all that have told it, are
// there. On a stream the messages carry only their order, so what follows waits for every rank's order domain.
#pragma once

#include "comm/schedule.hpp"

namespace gpurun::comm {

inline void build_barrier(Schedule& schedule) {
    const Communicator& comm = schedule.comm();
    const int size = comm.size();
    std::optional<Schedule::StepId> told; // in the round before
    for (int distance = 1, round = 0; distance < size; distance *= 2, ++round) {
        const Rank to{(comm.rank().value + distance) % size};
        const Rank from{(comm.rank().value - distance + size) % size};
        told ? schedule.send(to, round, {}, {*told}) : schedule.send(to, round, {});
        told = told ? schedule.receive(from, round, {}, {*told}) : schedule.receive(from, round, {});
    }
}

} // namespace gpurun::comm
