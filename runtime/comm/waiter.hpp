// Waiting in a call: spin, then sleep until something notifies the rank.
//
// A thread that waits makes progress for the whole rank. It spins for GPURUN_SPIN_US, then sleeps on the rank's
// doorbell. Peers ring that after they have posted a record, alarms when the device has come to something, and the
// launcher when a rank has died.
#pragma once

#include "comm/alarms.hpp"
#include "comm/progress.hpp"
#include "comm/wait_reason.hpp"

namespace gpurun::comm {

class Waiter {
  public:
    // With more ranks than cores, before it sleeps: about as long as it takes to sleep and to be woken.
    static constexpr int64_t kYieldNs = 50'000;

    Waiter(Core& core, Progress& progress, Alarms& alarms);

    // Returns once `done` says so. Before it sleeps, it calls `arm`, which sets alarms for whatever `done` needs of a
    // device. `reason` is for the wait report. The only errors are those of `arm`.
    base::Result<void> wait(EngineLock& lock, const WaitReason& reason, base::FunctionRef<bool()> done,
                            base::FunctionRef<base::Result<void>()> arm) GPURUN_REQUIRES(engine_lock);
    // The same for what needs nothing of a device.
    void wait(EngineLock& lock, const WaitReason& reason, base::FunctionRef<bool()> done) GPURUN_REQUIRES(engine_lock);
    // All ranks that are not leaving themselves are told that this one has come to its first step of gpurun_finalize().
    void tell_all(uint32_t step) GPURUN_REQUIRES(engine_lock);
    // The same; until all that live have come to the step of gpurun_finalize().
    void wait_for_all(EngineLock& lock, uint32_t step) GPURUN_REQUIRES(engine_lock);
    bool spins() const { return spin_ns_ != 0; }
    bool yields() const { return yields_; }
    const base::List<WaitingCall, Waits>& calls() const { return calls_; }

  private:
    bool tell_strangers() GPURUN_REQUIRES(engine_lock);
    base::Result<void> sleep(EngineLock& lock, Patience& patience, base::FunctionRef<bool()> done,
                             base::FunctionRef<base::Result<void>()> arm) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Progress& progress_;
    Alarms& alarms_;
    const int64_t spin_ns_;
    const bool yields_;
    base::List<WaitingCall, Waits> calls_;
};

} // namespace gpurun::comm
