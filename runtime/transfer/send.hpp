// The source's half of a message: its record is posted by the first protocol of the table that takes it. When the
// target answers, the send goes on by the protocol that the answer belongs to.
#pragma once

#include "transfer/borrowing.hpp"
#include "transfer/protocol/bounce.hpp"
#include "transfer/protocol_table.hpp"

namespace gpurun::transfer {

struct SendMode {
    Ending ending = Ending::kInStream;
    bool synchronous = false;             // not done before it is matched
    platform::TraceEvent* call = nullptr; // of the trace: the call that is this message and nothing else
    uint64_t signature = 0;               // of its record; 0: none
    Reduced reduced = Reduced::kNot;
    uint32_t beside = 1; // so many ranks send to its target at the same time, this one included
    // What the target reduces of it belongs here: it may write that at once, beside telling it.
    std::optional<Operand> answer;
    Loan loan{}; // its bytes stay where they are (protocol/loan.hpp)
    LoanOrigin origin{};
    const Borrowing* lent_on = nullptr; // of a loan of what this rank has borrowed: that. It lives as long as the send
};

class Send final : public OperationBy<Send, SendState>, public base::Linked<Send, Unposted> {
  public:
    using Mode = SendMode;

    Send(Resources& resources, Peer& target, const Operand& operand, const Envelope& envelope, const Mode& mode = {});

    // ---------------------------------------------------------------------------------------- for the engine
    // Posts those of the peer that wait for room, and then this one. If there is no room, sets its marker, and queues
    // it.
    void start();
    base::Result<void> on_record(const Record& answer);
    // In place of start(): sets its marker, and queues it for the next post_waiting(), or, if it is held with a series
    // of requests, for post_in_stream().
    void defer(uint64_t series = 0);
    // Of a request that is completed directly behind its start, in its stream: see Operation::join_stream(). Nothing if
    // it was posted.
    void end_together() {
        if (state() == nullptr && phase() == Phase::kActive)
            join_stream();
    }
    bool matched() const { return matched_; }     // its target has said so
    bool withdrawn() const { return withdrawn_; } // a loan that was cancelled before it was matched
    // Before it is posted: to this rank itself, and a receive that is made with it is there for it.
    void note_receive_beside() { has_receive_beside_ = true; }
    // Of a graph, enqueued: it is complete, in the stream, only once its target has taken it.
    bool awaits_taken() const { return state() != nullptr && state()->awaits_taken(); }
    // Its answer is written once the send is complete.
    bool answer_written() const { return answer_written_; }
    platform::wait_report::Entry describe() const override;

    // --------------------------------------------------------------------------------------- for protocols
    Peer& target() const { return *peer(); }
    const Envelope& envelope() const { return envelope_; }
    Loan loan() const { return loan_; }
    const LoanOrigin& origin() const { return origin_; }
    const Borrowing* lends_on() const { return lends_on_; } // null: memory of its own
    bool lends() const { return loan_.kind != LoanKind::kNone; }
    bool synchronous() const { return synchronous_; }
    // Of a series that is posted, in part, in its stream.
    bool is_of_part() const { return series_ != 0 && !work().has_marker() && !work().is_internal(); }
    bool has_receive_beside() const { return has_receive_beside_; }
    OperationTable<Send>& answered() const { return target().sends; }
    void note_matched();
    // Of a loan: a rank has borrowed it, and not received a copy.
    bool borrowed() const { return borrowed_; }
    void note_borrowed() {
        note_matched();
        borrowed_ = true;
    }
    // Its borrower has lent it on.
    bool was_lent_on() const { return was_lent_on_; }
    void note_lent_on() { was_lent_on_ = true; }
    void withdraw() {
        withdrawn_ = true;
        finish();
    }
    // Of a message whose buffer peers cannot map.
    Bounce& bounce() { return bounce_; }
    // The slot whose forward edge says that the buffer is ready; not valid if it has none yet.
    const Slot& edge() const { return edge_; }
    void set_edge(const Slot& edge) { edge_ = edge; }
    uint64_t signature() const { return signature_; }
    bool contributes() const { return reduced_ != Reduced::kNot; }
    Reduced reduced() const { return reduced_; }
    uint32_t beside() const { return beside_; }
    const std::optional<Operand>& place_of_answer() const { return answer_; }
    void note_answer_written() { answer_written_ = true; }
    // Signs and posts the message's record. False if there is no room now.
    bool publish(Record& record, Route route);
    // The same for a message whose route the target's answer tells.
    bool publish(Record& record, std::span<const std::byte> payload = {});
    // Posts the record of a message of a graph; these have an order of their own.
    void publish_captured(Record& record, Route route, std::span<const std::byte> payload);
    void count(Route route);
    // Everything is enqueued in the operand's own stream. Remembers the stream's name, since the program may destroy
    // it.
    void note_own_stream();
    // Takes the stream for what is enqueued next: the operand's own, or, behind a marker, an internal one.
    base::Result<void> take_stream(bool waits_for_peer);
    // Sets the marker, if the stream goes on before the message is posted.
    base::Result<void> set_marker();

  private:
    friend bool post_waiting(Peer& peer);
    friend void post_in_stream(Peer& peer, uint64_t series);
    void enter(ProtocolId protocol);
    void sign(Record& record) const {
        if (signature_ != 0)
            record.sign(signature_);
    }
    base::Result<Posted> post();
    bool post_again();

    Activity activity() const override {
        const bool waits = state() == nullptr || base::List<Send, Unposted>::has(*this);
        return waits ? Activity::kQueued : OperationBy::activity();
    }
    base::Result<void> await_end(const CompletionPoint& end, device::Stream stream) override;
    base::Result<void> complete_captured(device::Stream stream) override;
    void capture_missed() override {}
    std::optional<CompletionPoint> end_of_use() const override {
        return bounce_.taken() && own_stream_ != 0 ? bounce_.made() : std::nullopt;
    }
    void on_finish() override { bounce_.finish(operand()); }
    void leave_queues() override {
        target().unposted.remove(*this);
        OperationBy::leave_queues();
    }
    DependentStreams& dependents() const override { return target().awaiting_backward; }

    Envelope envelope_;
    const uint64_t signature_;
    const std::optional<Operand> answer_;
    bool synchronous_;
    const Reduced reduced_;
    uint32_t beside_;
    uint64_t series_ = 0; // with which it is held (comm/series.hpp); 0: with none
    bool has_receive_beside_ = false;
    bool matched_ = false;
    bool answer_written_ = false;
    bool withdrawn_ = false;
    bool borrowed_ = false;
    bool was_lent_on_ = false;
    const Loan loan_;
    const LoanOrigin origin_;
    const Borrowing* const lends_on_;
    ProtocolId protocol_ = 0; // of its state
    Slot edge_{};
    Bounce bounce_;
    uint64_t own_stream_ = 0; // name of the program's stream in which all of it is enqueued; 0: not so
};

// Posts the messages to the peer that wait for room, as long as there is some. True if any was posted.
bool post_waiting(Peer& peer);
// The same. Nothing has come into the stream of the series since its sends were deferred: these need no markers.
void post_in_stream(Peer& peer, uint64_t series);

} // namespace gpurun::transfer
