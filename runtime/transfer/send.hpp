// The source's half of a message.
//
//   post()       posts the message's record, by the first protocol of the table that takes it
//   on_record()  the target has answered: the send goes on by the protocol that the answer belongs to
#pragma once

#include "transfer/operation.hpp"

namespace gpurun::transfer {

// Bytes sent inline that the peer has not matched yet. Beyond this, messages go by rendezvous.
constexpr uint64_t kEagerCreditBytes = 1 << 20;

class Send;

enum class Posted {
    kNot,    // this protocol does not take the message, or has no slot for it: the next one is asked
    kNoRoom, // it does, but there is no room in the ring: to be tried again, by this protocol
    kYes,
};

// What one protocol keeps of a send. The defaults are for a protocol that does not need the function.
class SendState {
  public:
    virtual ~SendState() = default;

    // Posts the message. REQUIRES: the protocol begins messages (protocols.hpp).
    virtual base::Result<Posted> post(Send& send) {
        (void)send;
        return Posted::kNot;
    }
    // The target has answered. If another protocol posted the message, its first answer has brought the send here.
    virtual base::Result<void> on_record(Send& send, const Record& answer) {
        (void)send, (void)answer;
        return {};
    }
    virtual Activity activity(const Send& send) const {
        (void)send;
        return Activity::kIdle;
    }
    virtual base::Result<void> advance(Send& send) {
        (void)send;
        return {};
    }
    // What the CPU waits for on a device, while it is active.
    virtual std::optional<CompletionPoint> blocked_on(const Send& send) const {
        (void)send;
        return std::nullopt;
    }
    // Whether its end will come although the target has died. REQUIRES: it is enqueued.
    virtual base::Result<bool> is_complete_without_peer(const CompletionPoint& end) const;
    // Enqueue: `stream` goes on after the message. REQUIRES that it is enqueued.
    virtual base::Result<void> await_end(Send& send, const CompletionPoint& end, device::Stream stream) const;
    // Of a graph: what follows in `stream`, which is captured, comes after the message.
    virtual base::Result<void> complete_captured(Send& send, device::Stream stream) {
        (void)send, (void)stream;
        return {};
    }
    // Whether a failed one that is enqueued comes to its end all the same.
    virtual bool ends_by_itself() const { return false; }
    // It has failed: nothing more is to be enqueued.
    virtual void give_up(Send& send) { (void)send; }
    virtual void describe(const Send& send, platform::wait_report::Entry& entry) const { (void)send, (void)entry; }
};

class Send : public Operation, public base::Linked<Send, Unposted>, public base::Linked<Send, Queued> {
  public:
    struct Mode {
        Ending ending = Ending::kInStream;
        bool synchronous = false;             // not done before it is matched
        platform::TraceEvent* call = nullptr; // of the trace: the call that is this message and nothing else
        bool urges = false;                   // the target's rank has to go on by it, though it may be in no call
    };

    // ---------------------------------------------------------------------------------------- for the engine
    // Posts those of the peer that wait for room, and then this one. If there is no room, sets its marker, and queues
    // it.
    void start();
    void answer(const Record& record) { settle(on_record(record)); }
    // Whether it may be posted later, to share a kernel with others (defer()).
    bool may_be_deferred() const;
    // In place of start(): sets its marker, and queues it for the next post_waiting().
    void defer();
    bool matched() const { return matched_; } // its target has said so
    platform::wait_report::Entry describe() const override;

    // --------------------------------------------------------------------------------------- for protocols
    Peer& target() const { return *peer(); }
    const Envelope& envelope() const { return envelope_; }
    bool synchronous() const { return synchronous_; }
    platform::Notify notify() const { return urges_ ? platform::Notify::kAlways : platform::Notify::kIfSleeping; }
    // The name by which its target answers it.
    uint64_t serial();
    void note_matched();
    // The slot whose forward edge says that the buffer is ready; not valid if it has none yet.
    const Slot& edge() const { return edge_; }
    void set_edge(const Slot& edge) { edge_ = edge; }
    SendState* state() const { return state_; }
    // Posts the message's record. False if there is no room now.
    bool publish(const Record& record, Route route);
    // The same for a message whose route the target's answer tells.
    bool publish(const Record& record);
    // Posts the record of a message of a graph; these have an order of their own.
    void publish_captured(const Record& record, Route route);
    void count(Route route);
    // Everything is enqueued in the operand's own stream. Remembers the stream's name, since the program may destroy
    // it.
    void note_own_stream();
    // Takes the stream for what is enqueued next: the operand's own, or, behind a marker, an internal one.
    base::Result<void> take_stream(bool waits_for_peer);
    // Sets the marker, if the stream goes on before the message is posted.
    base::Result<void> set_marker();

  protected:
    Send(Resources& resources, Peer& target, const Operand& operand, const Envelope& envelope, const Mode& mode);

    void set_state(SendState* state) { state_ = state; }
    virtual base::Result<Posted> post() = 0;
    virtual base::Result<void> on_record(const Record& record) = 0;
    virtual bool may_share_kernel() const = 0;

  private:
    friend bool post_waiting(Peer& peer);
    bool post_again();

    Activity activity() const override { return state_ == nullptr ? Activity::kQueued : activity_of_state(); }
    Activity activity_of_state() const;
    base::Result<void> advance_protocol() override { return state_->advance(*this); }
    std::optional<CompletionPoint> blocked_on() const override;
    base::Result<bool> is_complete_without_peer() const override { return state_->is_complete_without_peer(*end()); }
    base::Result<void> await_end(const CompletionPoint& end, device::Stream stream) override;
    base::Result<void> complete_captured(device::Stream stream) override;
    void capture_missed() override {}
    bool ends_by_itself() const override { return state_ != nullptr && state_->ends_by_itself(); }
    void give_up() override;
    void leave_queues() override;
    DependentStreams& dependents() const override { return target().awaiting_backward; }

    Envelope envelope_;
    bool synchronous_;
    bool urges_;
    bool matched_ = false;
    SendState* state_ = nullptr; // once a protocol has been found
    uint64_t serial_ = 0;        // in Peer::sends; 0: in none
    Slot edge_{};
    uint64_t own_stream_ = 0; // name of the program's stream in which all of it is enqueued; 0: not so
};

// Posts the messages to the peer that wait for room, as long as there is some. True if any was posted.
bool post_waiting(Peer& peer);

} // namespace gpurun::transfer
