// Progress: takes in the records that peers have posted, moves what can be moved, notices deaths. Made by every thread
// that waits in a call, for all messages of the rank, and by the background thread. Used under the engine lock.
#pragma once

#include "comm/batch.hpp"
#include "comm/deferred_free.hpp"
#include "comm/ended_communicators.hpp"
#include "comm/orphaned_loans.hpp"
#include "comm/peer_failure.hpp"

#include <functional>

namespace gpurun::comm {

class Progress {
  public:
    Progress(Core& core, Batch& batch, PeerFailure& failure, DeferredFree& deferred, OrphanedLoans& orphaned)
        : core_(core), batch_(batch), failure_(failure), deferred_(deferred), orphaned_(orphaned), ended_(core) {}

    // True if anything has changed.
    bool run() GPURUN_REQUIRES(engine_lock);
    // Takes in the records of one peer. True if there were any.
    bool poll(transfer::Peer& peer) GPURUN_REQUIRES(engine_lock);
    // Those of all peers.
    void poll_all() GPURUN_REQUIRES(engine_lock);
    // Gives a receive that is not posted its message if that is the next record of its source, and nothing else could
    // take it. REQUIRES that it names its source.
    bool take_next(PostedReceive& receive) GPURUN_REQUIRES(engine_lock);
    // Called by each run(): what is made of operations looks whether it can go on. True if it has.
    void on_run(std::function<bool()> call) { advance_others_ = std::move(call); }
    // Called with each message of a collective, before it is matched. True: it was taken in, and is for no receive.
    using TakeCollective = std::function<bool(transfer::Peer& source, uint64_t ordinal, const transfer::Record& record,
                                              std::span<const std::byte> payload)>;
    void on_collective(TakeCollective call) { take_collective_ = std::move(call); }
    // Takes in a message that is for nobody, or all that fit, of those that no receive has taken.
    void drop(transfer::Peer& source, uint64_t ordinal, const transfer::Record& record,
              std::span<const std::byte> payload) GPURUN_REQUIRES(engine_lock) {
        ended_.drop(source, ordinal, record, payload);
    }
    void drop_unexpected(const Pattern& pattern) GPURUN_REQUIRES(engine_lock) { ended_.drop_unexpected(pattern); }
    // No more receives are posted: who waits until a message is received that none has taken is told so, from now on.
    void note_calls_are_over() GPURUN_REQUIRES(engine_lock);

  private:
    void refuse(transfer::Peer& source, const transfer::Record& record) GPURUN_REQUIRES(engine_lock);
    void dispatch(transfer::Peer& peer, const transfer::Record& record) GPURUN_REQUIRES(engine_lock);
    void heed(transfer::Peer& peer, const transfer::LoanNotice& notice) GPURUN_REQUIRES(engine_lock);
    void arrive(transfer::Peer& peer, const transfer::Record& record, std::span<const std::byte> payload)
        GPURUN_REQUIRES(engine_lock);
    // True if some bytes have moved.
    bool advance_moving() GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Batch& batch_;
    PeerFailure& failure_;
    DeferredFree& deferred_;
    OrphanedLoans& orphaned_;
    EndedCommunicators ended_;
    bool calls_are_over_ = false;
    std::function<bool()> advance_others_ = [] { return false; };
    TakeCollective take_collective_ = [](auto&&...) { return false; };
};

} // namespace gpurun::comm
