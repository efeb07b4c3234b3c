// Runs schedules: in blocking calls, and as requests. Takes the engine lock.
#pragma once

#include "base/function_ref.hpp"
#include "comm/collective_check.hpp"
#include "comm/collective_tally.hpp"
#include "comm/immediate_mails.hpp"
#include "comm/immediate_steps.hpp"

namespace gpurun::comm {

class Schedules {
  public:
    Schedules(Core& core, Progress& progress, Batch& batch, Waiter& waiter, Alarms& alarms, Messages& messages,
              PeerFailure& failure, Background& background);

    // Adds this rank's steps to an empty schedule. Its ranks have been checked.
    using Build = base::FunctionRef<void(Schedule&)>;
    // Runs a collective in the order of `buffer`, and waits until it is complete for the caller. The true length of
    // what this rank has received by it, if the schedule says which step that is; else 0.
    base::Result<size_t> run(const Signature& call, const Communicator& comm, const transfer::Operand& buffer,
                             Build build);
    // In host order, among some members of the communicator, as Schedule::reset() says.
    base::Result<size_t> run_among(const Group& members, base::Collective kind, const Communicator& comm,
                                   uint16_t number, Build build);
    // Starts it, in the order of `buffer`, which is not captured: the name of the request that it is complete by.
    // `entered_ns`: Requests::entry_time() of the call; without it, it belongs to no series.
    using OwnBuild = ScheduleRun::Build;
    uint64_t start(const Signature& call, const Communicator& comm, const transfer::Operand& buffer, OwnBuild build,
                   std::optional<int64_t> entered_ns = std::nullopt);
    // The same for a persistent request, which is not active, and of its communicator.
    void start_again(Request& request, const Signature& call, const transfer::Operand& buffer, OwnBuild build,
                     int64_t entered_ns);

    bool all_done() const GPURUN_REQUIRES(engine_lock);
    // Nothing is left to decide of any: what comes is for none of them.
    bool all_enqueued() const GPURUN_REQUIRES(engine_lock);
    // What this rank has made (GPURUN_REPORT=collectives).
    std::string report();

  private:
    // Whether what is called in the host's order is better made in a stream. `buffer` is the one that the device
    // reaches least.
    bool is_for_stream(const Schedule& schedule, const transfer::Operand& buffer) GPURUN_REQUIRES(engine_lock);
    // One for a collective of the communicator, which it holds.
    ScheduleRun& take(const Communicator& comm) GPURUN_REQUIRES(engine_lock);
    // Empties it for this call of all its ranks: from now on this rank has called it, and soon it begins. No progress
    // is made before that: what came for it meanwhile would be too late.
    void note_call(ScheduleRun& run, const Signature& call, const Communicator& comm) GPURUN_REQUIRES(engine_lock);
    // Before another one is called that does not go on with their series.
    void begin_all_held() GPURUN_REQUIRES(engine_lock);
    // Adds its steps; those that can be done at once are done. False: the others are to be run.
    bool build_now(ScheduleRun& run, const transfer::Operand& buffer, Build build) GPURUN_REQUIRES(engine_lock);
    bool may_do_now(const Communicator& comm, const transfer::Operand& buffer) GPURUN_REQUIRES(engine_lock);
    bool is_done_now(ScheduleRun& run, const transfer::Operand& buffer, Build build) GPURUN_REQUIRES(engine_lock);
    void start(Request& request, const Signature& call, OwnBuild build, std::optional<int64_t> entered_ns)
        GPURUN_REQUIRES(engine_lock);
    void begin_request(ScheduleRun& run, const transfer::Operand& buffer, Build build, bool in_place)
        GPURUN_REQUIRES(engine_lock);
    void begin_held(ScheduleRun& run, bool in_place) GPURUN_REQUIRES(engine_lock);
    // The same, behind those that were called before it, which are not in place.
    void begin_in_place(ScheduleRun& run) GPURUN_REQUIRES(engine_lock);
    void begin(ScheduleRun& run, const transfer::Operand& order) GPURUN_REQUIRES(engine_lock);
    base::Result<size_t> finish(EngineLock& lock, ScheduleRun& run, const transfer::Operand& buffer)
        GPURUN_REQUIRES(engine_lock);
    void count(const Schedule& schedule, const transfer::Operand& buffer) GPURUN_REQUIRES(engine_lock);
    void take_back(ScheduleRun& run) GPURUN_REQUIRES(engine_lock);
    bool advance() GPURUN_REQUIRES(engine_lock);
    // Sets alarms for those that go on when the device has come so far; with `all`, for all.
    base::Result<void> arm(bool all) const GPURUN_REQUIRES(engine_lock);
    bool any_awaits_device() const GPURUN_REQUIRES(engine_lock);
    void run_here(EngineLock& lock, ScheduleRun& run, const transfer::Operand& order) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Batch& batch_;
    Waiter& waiter_;
    Alarms& alarms_;
    Messages& messages_;
    PeerFailure& failure_;
    Background& background_;
    base::List<ScheduleRun, Running> running_;
    base::List<ScheduleRun, Running> held_; // that have not begun, in the order of their calls
    CollectiveCheck check_;                 // of those that have
    ImmediateSteps immediate_;
    ImmediateMails immediate_mails_;
    CollectiveTally tally_;
    std::deque<ScheduleRun> all_;
    std::vector<ScheduleRun*> unused_;
};

} // namespace gpurun::comm
