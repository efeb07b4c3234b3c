// Barrier by dissemination: in round k a rank tells the rank 2^k after it that it, and all that have told it, are
// there. On a stream the messages carry only their order, so what follows waits for every rank's order domain.
#include "comm/collective/collective.hpp"

namespace gpurun::comm {

void build_barrier(Schedule& schedule) {
    const Communicator& comm = schedule.comm();
    const int size = comm.size();
    std::optional<Schedule::StepId> told; // in the round before
    for (int distance = 1, round = 0; distance < size; distance *= 2, ++round) {
        const Rank to{(comm.rank().value + distance) % size};
        const Rank from{(comm.rank().value - distance + size) % size};
        const auto receive = told ? schedule.receive(from, round, {}, {*told}) : schedule.receive(from, round, {});
        told ? schedule.send(to, round, {}, {*told}) : schedule.send(to, round, {});
        told = receive;
    }
}

base::Result<void> barrier(Engine& engine, const Communicator& comm, const transfer::Operand& order) {
    ScheduleRun& run = engine.schedules().take(base::Collective::kBarrier, comm);
    build_barrier(run.schedule());
    auto ran = engine.schedules().run(run, order);
    return ran ? base::Result<void>() : base::Result<void>(std::move(ran).error());
}

uint64_t start_barrier(Engine& engine, const Communicator& comm, const transfer::Operand& order) {
    ScheduleRun& run = engine.schedules().take(base::Collective::kBarrier, comm);
    build_barrier(run.schedule());
    return engine.schedules().start(run, order);
}

} // namespace gpurun::comm
