#include "comm/schedules.hpp"

namespace gpurun::comm {

using base::Result;
using transfer::Operand;

namespace {

// In the order of the operand's domain, without its bytes.
Operand order_of(const Operand& operand) {
    Operand order;
    order.domain = operand.domain;
    order.stream = operand.stream;
    return order;
}

} // namespace

Schedules::Schedules(Core& core, Progress& progress, Batch& batch, Waiter& waiter, Alarms& alarms, Messages& messages,
                     PeerFailure& failure, Background& background)
    : core_(core), batch_(batch), waiter_(waiter), alarms_(alarms), messages_(messages), failure_(failure),
      background_(background) {
    progress.on_run([this] {
        assume_engine_lock();
        return advance();
    });
    // A collective in which a dead rank takes part fails on every rank, whether the rank needed the dead one or not.
    failure.on_lost([this](WorldRank dead) {
        running_.for_each([&](ScheduleRun& each) {
            assume_engine_lock();
            if (each.schedule().members().rank_of(dead))
                each.fail(PeerFailure::died(dead));
        });
    });
}

ScheduleRun& Schedules::take(base::Collective kind, const Communicator& comm) {
    const EngineLock lock(core_.mutex());
    ScheduleRun& run = take_for(comm);
    run.schedule().reset(kind, comm);
    return run;
}

ScheduleRun& Schedules::take(base::Collective kind, const Communicator& comm, uint16_t number, const Group& members) {
    const EngineLock lock(core_.mutex());
    ScheduleRun& run = take_for(comm);
    run.schedule().reset(kind, comm, number, members);
    return run;
}

ScheduleRun& Schedules::take_for(const Communicator& comm) {
    if (unused_.empty()) {
        unused_.reserve(all_.size() + 1); // so that one goes back without an allocation
        unused_.push_back(
            &all_.emplace_back([this](ScheduleRun& each) { take_back(each); }, core_, messages_, failure_));
    }
    ScheduleRun& run = *unused_.back();
    unused_.pop_back();
    comm.hold();
    return run;
}

void Schedules::take_back(ScheduleRun& run) {
    running_.remove(run);
    run.schedule().comm().let_go();
    unused_.push_back(&run);
}

bool Schedules::advance() {
    bool moved = false;
    running_.for_each([&](ScheduleRun& each) {
        assume_engine_lock();
        moved |= each.advance();
    });
    return moved;
}

Result<void> Schedules::run_here(EngineLock& lock, ScheduleRun& run, const Operand& order,
                                 std::optional<Schedule::StepId> received) {
    running_.push_back(run);
    run.start(order, transfer::Ending::kInStream, received);
    batch_.launch(); // of requests that have found no room before
    const WaitReason reason{.kind = WaitReason::Kind::kMessages, .collective = &run};
    const auto done = [&] {
        assume_engine_lock();
        (void)run.advance();
        return run.done();
    };
    auto waited = waiter_.wait(lock, reason, done, [&] {
        assume_engine_lock();
        return run.arm(alarms_);
    });
    if (!waited)
        run.abandon(base::Error{base::Status::kInternal, "the call ended before its messages did"});
    return waited;
}

Result<size_t> Schedules::run(ScheduleRun& run, const Operand& buffer, std::optional<Schedule::StepId> received) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    auto waited = run_here(lock, run, order_of(buffer), received);
    Result<size_t> result(run.received_bytes());
    if (!waited)
        result = std::move(waited).error();
    else if (run.error() != nullptr)
        result = *run.error();
    run.release();
    return result;
}

uint64_t Schedules::start(ScheduleRun& run, const Operand& buffer, std::optional<Schedule::StepId> received) {
    const EngineLock lock(core_.mutex());
    RequestTable& table = core_.requests();
    Request& request = table.take(Task{.kind = Task::Kind::kCollective, .operand = buffer});
    request.active = true;
    request.cancelled = false;
    request.collective = &run;
    table.note_started();
    batch_.end(); // its messages come behind what was started before
    running_.push_back(run);
    run.start(order_of(buffer), transfer::Ending::kByCompletion, received);
    batch_.launch();
    if (!run.done())
        background_.leave_to();
    return request.name;
}

} // namespace gpurun::comm
