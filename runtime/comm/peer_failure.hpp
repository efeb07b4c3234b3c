// What follows from the death of a rank.
//
// Every operation that needs the dead rank fails, once its own copies no longer touch its buffer. Streams that waited
// for the dead rank go on: the launcher has poisoned its counters, and its events are released here. The streams whose
// messages were cut short are remembered, so that the next synchronization of each reports it. Used under the engine
// lock.
#pragma once

#include "comm/absent_ranks.hpp"
#include "comm/orphaned_loans.hpp"

#include <functional>

namespace gpurun::comm {

class PeerFailure {
  public:
    PeerFailure(Core& core, OrphanedLoans& orphaned) : core_(core), orphaned_(orphaned) {}

    // Called when a rank is lost, after its operations have failed: collectives fail by it.
    void on_lost(std::function<void(WorldRank)> call) { lost_ = std::move(call); }
    // REQUIRES: the peer is dead, and all records that it had posted have been taken in.
    void lose(transfer::Peer& peer) GPURUN_REQUIRES(engine_lock);
    // Whether a peer is gone, and it is not known yet what that has cut short. Until then a wait that has ended may
    // have ended by poison.
    bool is_losing() const GPURUN_REQUIRES(engine_lock);
    // A peer has called gpurun_finalize(): receives of what it has not sent fail. REQUIRES: all records that it had
    // posted before have been taken in.
    void leave_off(transfer::Peer& peer) GPURUN_REQUIRES(engine_lock);
    // Whether every rank that could send a message for the pattern is dead, or has called gpurun_finalize().
    bool is_hopeless(const Pattern& pattern) const GPURUN_REQUIRES(engine_lock);
    // Whether every one of them is dead.
    bool is_lost(const Pattern& pattern) const GPURUN_REQUIRES(engine_lock);
    // Why. REQUIRES is_hopeless().
    base::Error why_hopeless(const Pattern& pattern) const GPURUN_REQUIRES(engine_lock);
    // Whether some rank of the group has died.
    bool any_lost(const Group& group) const GPURUN_REQUIRES(engine_lock);

    base::Error member_died(const Group& group) const GPURUN_REQUIRES(engine_lock);

    // Of a stream that has been waited for: kPeerLost if a message in it was cut short (said once a stream, unless it
    // stays blocked).
    base::Result<void> check(device::Stream stream) GPURUN_REQUIRES(engine_lock);
    // kPeerLost if a message of a graph was cut short. In which stream the graph ran is not known.
    base::Result<void> check_graphs() GPURUN_REQUIRES(engine_lock);
    // The stream is blocked for ever, and must not be waited for.
    bool is_stuck(device::Stream stream) const { return stuck_ && is_lost(stream); }
    // Some stream is blocked for ever on a dead rank's event, so the device must not be waited for.
    bool stuck() const { return stuck_; }
    bool cut_short() const { return cut_short_; } // some message was

  private:
    void remember(const transfer::DependentStreams& streams, transfer::Edge edge, transfer::Direction direction,
                  transfer::Peer& peer) GPURUN_REQUIRES(engine_lock);
    void fail_operations(transfer::Peer& peer) GPURUN_REQUIRES(engine_lock);
    void fail_hopeless() GPURUN_REQUIRES(engine_lock);
    // Of every rank but this one. False where there is none.
    template <typename Condition>
    bool all_others(const Group& group, const Condition& condition) const;
    bool is_lost(device::Stream stream) const;

    Core& core_;
    OrphanedLoans& orphaned_;
    std::function<void(WorldRank)> lost_ = [](WorldRank) {};
    std::vector<device::Stream> lost_streams_; // with a message that was cut short, not yet reported
    bool cut_short_ = false;
    bool stuck_ = false;
};

} // namespace gpurun::comm
