// Broadcast along a binomial tree: a rank receives from its parent, then serves all its children at once (where the
// target pulls, they do so from its buffer side by side).
#include "comm/collective/collective.hpp"

namespace gpurun::comm {

std::optional<Schedule::StepId> build_bcast(Schedule& schedule, const Schedule::Buffer& buffer, Rank root) {
    const Communicator& comm = schedule.comm();
    const int size = comm.size();
    const int position = (comm.rank().value - root.value + size) % size; // in the tree, whose root is 0
    const auto rank_at = [&](int at) { return Rank{(at + root.value) % size}; };
    int reach = 1; // the lowest bit of the position: our children are position + 1, 2, 4 ... below it
    while (reach < size && (position & reach) == 0)
        reach <<= 1;
    std::optional<Schedule::StepId> received;
    if (position != 0)
        received = schedule.receive(rank_at(position - reach), 0, buffer);
    for (int step = reach >> 1; step > 0; step >>= 1) { // the child with the largest subtree first
        if (position + step >= size)
            continue;
        if (received)
            schedule.pass_on(rank_at(position + step), 0, buffer, *received);
        else
            schedule.send(rank_at(position + step), 0, buffer);
    }
    return received;
}

namespace {

Schedule::Buffer buffer_of(const transfer::Operand& operand) { return {operand.address, operand.bytes, operand.where}; }

} // namespace

base::Result<size_t> bcast(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int root) {
    ScheduleRun& run = engine.schedules().take(base::Collective::kBcast, comm);
    const auto received = build_bcast(run.schedule(), buffer_of(buffer), Rank{root});
    GPURUN_ASSIGN(const size_t bytes, engine.schedules().run(run, buffer, received));
    return received ? bytes : buffer.bytes;
}

uint64_t start_bcast(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int root) {
    ScheduleRun& run = engine.schedules().take(base::Collective::kBcast, comm);
    const auto received = build_bcast(run.schedule(), buffer_of(buffer), Rank{root});
    return engine.schedules().start(run, buffer, received);
}

} // namespace gpurun::comm
