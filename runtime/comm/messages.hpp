// Blocking messages: starting operations and waiting for them, the fast path of small messages, and probes. Takes the
// engine lock.
#pragma once

#include "comm/background.hpp"
#include "comm/waiter.hpp"
#include "transfer/protocol/inline.hpp"

namespace gpurun::comm {

class Messages {
  public:
    Messages(Core& core, Progress& progress, Batch& batch, Waiter& waiter, Alarms& alarms, PeerFailure& failure,
             Background& background)
        : core_(core), progress_(progress), batch_(batch), waiter_(waiter), alarms_(alarms), failure_(failure),
          background_(background) {}

    // There as long as the engine is. What it holds is used under the lock.
    transfer::Peer& peer(WorldRank rank) GPURUN_NO_ANALYSIS { return core_.peer(rank); }
    // Starts the sends, then the receives, each in order, and waits until all are complete for their caller. Returns
    // the first error; every other operation is complete or ended as well.
    base::Result<void> complete(std::span<transfer::Send* const> sends, std::span<PostedReceive* const> receives);
    // Whether a captured message with the peer can use `operand`. A call that sends and receives asks for both before
    // it starts either.
    base::Result<void> check_captured(WorldRank peer, const transfer::Operand& operand);

    // ---- the fast path: small messages between host memory, in the host's order
    // For those that need nothing but room in a ring.
    // False, and nothing was done, if anything is unusual: the call then goes the way of all others.
    // REQUIRES: the message goes inline (transfer/protocol/inline.hpp).
    bool send_now(WorldRank dest, const std::byte* payload, const transfer::Envelope& envelope,
                  platform::TraceEvent* call) {
        const EngineLock lock(core_.mutex());
        return try_send_now(dest, payload, envelope, call);
    }
    // Looks for a moment. REQUIRES a pattern without a wildcard for the source.
    bool receive_now(const Pattern& pattern, std::span<std::byte> into, Arrived& ret_arrived);

    // ---- probes
    struct Found {
        WorldRank source;
        transfer::Envelope envelope;
    };
    // Waits, if it may, for a message that matches; else returns none if there is none. With `ret_taken`, takes the
    // message out for receive_taken(), and stores its number there.
    base::Result<std::optional<Found>> probe(const Pattern& pattern, bool may_wait, uint64_t* ret_taken);
    // The communicator of a message that was taken out, which stays until that is received. Null: there is none.
    const Communicator* communicator_of_taken(uint64_t number);
    base::Result<void> receive_taken(uint64_t number, PostedReceive& receive);

    // ---- scratch memory in the order of an operand, for a call of the program's (transfer/pool/scratch_pool.hpp)
    base::Result<transfer::ScratchPool::Block*> take_scratch(transfer::ScratchPool::Kind kind, size_t bytes,
                                                             const transfer::Operand& order);
    void give_back(transfer::ScratchPool::Block& scratch, const transfer::Operand& order);

    // ---- for what is started together
    // In a graph it is enqueued by finish_together(), once all of it is matched.
    static transfer::Ending ending_together(const transfer::Operand& operand) {
        return operand.captured() ? transfer::Ending::kByCompletion : transfer::Ending::kTogether;
    }

    // ---- for requests, schedules and groups, under the lock
    // Of those that have been started together: waits until all are complete for their caller. Each has its own error;
    // what is returned has failed for all of them.
    base::Result<void> finish_together(EngineLock& lock, std::span<transfer::Send* const> sends,
                                       std::span<PostedReceive* const> receives) GPURUN_REQUIRES(engine_lock);
    // Something is collected to be put, and the peers put something, too: likely, or surely, as in a collective. What
    // comes soon shares the kernel: until `have_started`, but not for long, since a peer may wait for what is put.
    enum class Peers { kLikely, kSure };
    void await_exchange(Peers put_too, base::FunctionRef<bool()> have_started) GPURUN_REQUIRES(engine_lock);
    // For how long at most: a peer that is sure to come launches its own kernel once it has, and this rank beside it,
    // so nothing is lost by the wait as long as nobody else wants the lock.
    static int64_t longest_wait_ns(bool sure);
    // What is collected to be put or signalled shares its kernel with what comes soon, and with the peers' answers:
    // until all receives `have_started`, and all sends `are_enqueued`. Then launches it.
    void share_kernel(base::FunctionRef<bool()> have_started, base::FunctionRef<bool()> are_enqueued)
        GPURUN_REQUIRES(engine_lock);
    // Enqueues the mails that were collected.
    void launch() GPURUN_REQUIRES(engine_lock) { batch_.launch(); }
    // Before any of them is posted: finds the sends to this rank itself that the receives made with them are sure to
    // take.
    void pair_with_own(std::span<transfer::Send* const> sends, std::span<PostedReceive* const> receives)
        GPURUN_REQUIRES(engine_lock);
    void start(transfer::Send& send) GPURUN_REQUIRES(engine_lock);
    void start(PostedReceive& receive) GPURUN_REQUIRES(engine_lock);
    void fail(PostedReceive& receive, base::Error error) GPURUN_REQUIRES(engine_lock); // no message may match it then
    void start_taken(uint64_t number, PostedReceive& receive) GPURUN_REQUIRES(engine_lock);
    bool try_send_now(WorldRank dest, const std::byte* payload, const transfer::Envelope& envelope,
                      platform::TraceEvent* call) GPURUN_REQUIRES(engine_lock) {
        transfer::Peer& to = core_.peer(dest);
        return to.unposted.empty() && !to.channel().is_gone() &&
               transfer::send_inline_now(core_.resources(), to, payload, envelope, call);
    }

  private:
    // Of a graph, in captured_messages.cpp.
    base::Result<void> enqueue_captured(std::span<transfer::Send* const> sends,
                                        std::span<PostedReceive* const> receives) GPURUN_REQUIRES(engine_lock);
    base::Result<void> receive_as_sent(std::vector<PostedReceive*> receives) GPURUN_REQUIRES(engine_lock);
    base::Result<void> arm(std::span<transfer::Send* const> sends, std::span<PostedReceive* const> receives)
        GPURUN_REQUIRES(engine_lock);
    void end(std::span<transfer::Send* const> sends, std::span<PostedReceive* const> receives)
        GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Progress& progress_;
    Batch& batch_;
    Waiter& waiter_;
    Alarms& alarms_;
    PeerFailure& failure_;
    Background& background_;
};

} // namespace gpurun::comm
