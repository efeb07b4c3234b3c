// A peer of this rank (which may be itself): its channel, the sends that wait to be published, the operations that wait
// for its answers, and what each protocol keeps for it.
//
// Owned by comm::Engine, used under its lock.
#pragma once

#include "transfer/dependent_streams.hpp"
#include "transfer/memory/registration.hpp"
#include "transfer/operation_table.hpp"
#include "transfer/route.hpp"

#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace gpurun::transfer {

// What a protocol keeps for one peer. The defaults are for a protocol that does not need the function.
class ProtocolPart {
  public:
    ProtocolPart() = default;
    virtual ~ProtocolPart() = default;
    ProtocolPart(const ProtocolPart&) = delete;
    ProtocolPart& operator=(const ProtocolPart&) = delete;

    // A kNotice of this protocol has come.
    virtual void on_notice(const Record& notice) { (void)notice; }
    // Called after Peer::attend(), until quiet(): moves what is queued here. True if anything has changed.
    virtual bool progress() { return false; }
    // progress() has nothing more to do.
    virtual bool quiet() const { return true; }
    // Some message that is queued here goes on only if a thread of this rank makes progress.
    virtual bool needs_hand() const { return false; }
    // Of those that are queued here, the first one that waits for something on a device; null if none does.
    virtual const Operation* first_waiting() const { return nullptr; }
    // The peer has died: what is queued here fails.
    virtual void lose(const base::Error& error) { (void)error; }
    // At the end, in two steps: stop using what the peer owns; then, when no peer uses what this rank owns, free that.
    virtual base::Result<void> let_go() { return {}; }
    virtual base::Result<void> close() { return {}; }
};

class Peer {
  public:
    using PartMaker = std::unique_ptr<ProtocolPart> (*)(Resources& resources, Peer& peer);
    // `makers` by protocol; null where one keeps nothing.
    Peer(Resources& resources, std::unique_ptr<PeerChannel> channel, std::span<const PartMaker> makers);
    ~Peer();

    base::WorldRank rank() const { return channel_->peer(); }
    bool to_self() const { return channel_->to_self(); }
    PeerChannel& channel() const { return *channel_; }
    Registration& memory() { return memory_; }
    base::Result<Fence*> fence_out() { return channel_->fence(Direction::kOut); }
    base::Result<Fence*> fence_in() { return channel_->fence(Direction::kIn); }

    // The peer has died, and the operations that depended on it have failed.
    bool lost() const { return lost_; }
    void set_lost() { lost_ = true; }
    // It has called gpurun_finalize(), and its records have been taken in: it starts nothing new.
    bool has_left_off() const { return left_off_; }
    void set_left_off() { left_off_ = true; }

    // A protocol's part. REQUIRES that the protocol has one.
    template <typename Part>
    Part& part() const {
        return static_cast<Part&>(*parts_[Part::kProtocol]);
    }
    // Calls with each part that there is.
    template <typename Call>
    void for_each_part(const Call& call) const {
        for (const auto& each : parts_)
            if (each)
                call(*each);
    }
    void on_notice(const Record& notice) { parts_[notice.protocol]->on_notice(notice); }

    // Posts a record, or keeps it until there is room. Not for messages, whose order these would not keep; except those
    // of graphs, which have an order of their own.
    void tell(const Record& record, Notify notify = Notify::kAlways, std::span<const std::byte> payload = {});
    // Posts the records that are kept. True if none is left.
    bool flush();
    bool has_told() const { return backlog_.empty(); } // everything that tell() was given is posted
    // A protocol's part has something to do: its progress() is called until it is quiet().
    void attend(ProtocolId protocol) { attended_ |= 1u << protocol; }
    // Nothing is queued: only records of the peer can change anything.
    bool quiet() const { return backlog_.empty() && unposted.empty() && attended_ == 0; }
    // Moves what is queued, but for the sends that are not posted (post_waiting(), send.hpp). True if anything has
    // changed.
    bool progress();
    // Some message goes on only if a thread of this rank makes progress.
    bool needs_hand() const;

    Tally sent;
    Tally received;
    // How many messages have gone each way: traces name messages by these. Messages of graphs are counted apart.
    struct Count {
        uint64_t messages = 0;
        uint64_t captured = 0;

        uint64_t next(const Envelope& envelope) {
            return (envelope.context & kCapturedContexts) != 0 ? ++captured : ++messages;
        }
    };
    Count count_out;
    Count count_in;

    base::List<Send, Unposted> unposted; // in call order
    OperationTable<Send> sends;          // those that wait for an answer
    OperationTable<Receive> receives;    // the same
    // Streams that wait for the peer: for backward edges of messages to it, for forward edges of messages from it.
    DependentStreams awaiting_backward{Edge::kBackward};
    DependentStreams awaiting_forward{Edge::kForward};
    template <typename Call>
    void for_each_held(const Call& call) const {
        awaiting_forward.for_each_held(channel_->open_fence(Direction::kIn), call);
        awaiting_backward.for_each_held(channel_->open_fence(Direction::kOut), call);
    }

    // Stops using what the peer owns. REQUIRES: nothing is under way.
    base::Result<void> let_go();
    // Frees what the peer could use. REQUIRES: the peer has let go.
    base::Result<void> close();

  private:
    std::unique_ptr<PeerChannel> channel_;
    Registration memory_;
    bool lost_ = false;
    bool left_off_ = false;
    uint32_t attended_ = 0; // a bit for each protocol
    struct Told {
        Record record;
        std::vector<std::byte> payload;
    };
    std::deque<Told> backlog_;
    std::vector<std::unique_ptr<ProtocolPart>> parts_; // by protocol
};

} // namespace gpurun::transfer
