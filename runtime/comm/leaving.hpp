// gpurun_finalize(): leaving the job together with all ranks that live.
//
// A rank says first that it starts nothing new, so that nobody waits for it in vain. Then come four steps. A rank
// passes a step when every living rank has reached it: all records have been posted; all messages that have a receive
// are matched, so that both sides agree which are; nobody has memory of a peer mapped; nobody uses what a peer owns,
// and everything may be freed. Takes the engine lock.
#pragma once

#include "comm/leftovers.hpp"
#include "comm/schedules.hpp"

namespace gpurun::comm {

class Leaving {
  public:
    Leaving(Core& core, Progress& progress, Batch& batch, Waiter& waiter, Alarms& alarms, PeerFailure& failure,
            Background& background, Loans& loans, Leftovers& leftovers, const Schedules& schedules)
        : core_(core), progress_(progress), batch_(batch), waiter_(waiter), alarms_(alarms), failure_(failure),
          background_(background), loans_(loans), leftovers_(leftovers), schedules_(schedules) {}

    // kPeerLost if some message was cut short.
    base::Result<void> run();

  private:
    void end_receives() GPURUN_REQUIRES(engine_lock);
    void end_sends() GPURUN_REQUIRES(engine_lock);
    void settle_messages(EngineLock& lock) GPURUN_REQUIRES(engine_lock);
    base::Result<void> take_down(EngineLock& lock) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Progress& progress_;
    Batch& batch_;
    Waiter& waiter_;
    Alarms& alarms_;
    PeerFailure& failure_;
    Background& background_;
    Loans& loans_;
    Leftovers& leftovers_;
    const Schedules& schedules_;
};

} // namespace gpurun::comm
