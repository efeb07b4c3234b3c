// Barrier: what the messages carry is of no use; on a stream what follows waits for every rank's order domain.
#pragma once

#include "comm/collective/parts.hpp"

namespace gpurun::comm {

namespace barrier {

constexpr size_t kMailBytes = 8;
constexpr int kMostAtOnce = 8; // ranks

// In round k a rank tells the rank 2^k after it that it, and all that have told it, are there.
inline void disseminate(Schedule& schedule, const Schedule::Buffer& given, const Schedule::Buffer& got) {
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

} // namespace barrier

// `by_mail`: a message of some bytes is a mail, and takes one kernel; one of none takes several operations of the
// stream. Few ranks tell each other at once, in one round.
inline void build_barrier(Schedule& schedule, bool by_mail) {
    const Others others(schedule.comm());
    const size_t bytes = by_mail ? barrier::kMailBytes : 0;
    const auto place = [&] { return by_mail ? schedule.scratch(bytes) : Schedule::Buffer(); };
    const Schedule::Buffer given = place();
    if (schedule.comm().size() > barrier::kMostAtOnce) {
        barrier::disseminate(schedule, given, place());
        return;
    }
    for (int i = 0; i < others.count(); ++i)
        schedule.send(others.after(i), 0, given);
    for (int i = 0; i < others.count(); ++i)
        schedule.receive(others.before(i), 0, place());
}

} // namespace gpurun::comm
