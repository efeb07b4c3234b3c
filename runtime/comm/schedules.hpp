// Runs schedules: in blocking calls, and as requests. Takes the engine lock.
#pragma once

#include "comm/schedule_run.hpp"

namespace gpurun::comm {

class Schedules {
  public:
    Schedules(Core& core, Progress& progress, Batch& batch, Waiter& waiter, Alarms& alarms, Messages& messages,
              PeerFailure& failure, Background& background);

    // An empty schedule, to be filled and given to run() or start().
    ScheduleRun& take(base::Collective kind, const Communicator& comm);
    // For some members of the communicator, as Schedule::reset() says.
    ScheduleRun& take(base::Collective kind, const Communicator& comm, uint16_t number, const Group& members);
    // Runs it in the order of `buffer`, and waits until it is complete for the caller. The true length of what
    // `received` has got, if that is given; else 0.
    base::Result<size_t> run(ScheduleRun& run, const transfer::Operand& buffer,
                             std::optional<Schedule::StepId> received = std::nullopt);
    // Starts it, in the order of `buffer`, which is not captured: the name of the request that it is complete by.
    uint64_t start(ScheduleRun& run, const transfer::Operand& buffer,
                   std::optional<Schedule::StepId> received = std::nullopt);

  private:
    ScheduleRun& take_for(const Communicator& comm) GPURUN_REQUIRES(engine_lock);
    void take_back(ScheduleRun& run);
    bool advance() GPURUN_REQUIRES(engine_lock);
    base::Result<void> run_here(EngineLock& lock, ScheduleRun& run, const transfer::Operand& order,
                                std::optional<Schedule::StepId> received) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Batch& batch_;
    Waiter& waiter_;
    Alarms& alarms_;
    Messages& messages_;
    PeerFailure& failure_;
    Background& background_;
    base::List<ScheduleRun, Running> running_;
    std::deque<ScheduleRun> all_;
    std::vector<ScheduleRun*> unused_;
};

} // namespace gpurun::comm
