// An operation: one half of a message, a Send or a Receive, from its call until the caller may go on.
//
// Here is what all protocols share: the buffer and its order domain, the streams that are used, the end, the error, the
// trace. What only one protocol needs is in its state (SendState, ReceiveState), which the operation holds while it
// goes by that protocol. An operation is in one of four phases:
//
//   kNew       not started
//   kActive    its protocol moves it: by post() and on_record(), or by advance()
//   kEnqueued  nothing is left to decide: it is done once its end, a completion point, has come. Or its last work is
//              left to whoever completes it, and enqueued there
//   kDone      the caller may go on
//
// Lives with its caller, on the stack or in a request. Peers, protocols and the engine only point to it; it leaves all
// their lists, under the engine lock, before it is destroyed.
#pragma once

#include "platform/wait_report.hpp"
#include "transfer/message_trace.hpp"
#include "transfer/peer.hpp"
#include "transfer/stream_use.hpp"

#include <optional>

namespace gpurun::transfer {

// What an active operation needs to go on.
enum class Activity : uint8_t {
    kIdle,    // the peer's next record
    kQueued,  // its turn, or room: a thread of this rank has to move the queue
    kWaiting, // something that advance() looks for: a thread of this rank has to call it
    kBusy,    // nothing: each advance() moves some bytes
    kInDoubt, // whether its peer lives: advance() has to be called from time to time
};

class Operation : public base::Linked<Operation, Moving>, public base::Linked<Operation, Left> {
  public:
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    virtual ~Operation();

    // ---------------------------------------------------------------------------------------- for the engine
    bool done() const { return phase_ == Phase::kDone; }
    // Nothing is left to decide: it is done, or will be once what is enqueued has run.
    bool enqueued() const { return phase_ >= Phase::kEnqueued; }
    bool is_busy() const { return phase_ == Phase::kActive && activity() == Activity::kBusy; }
    bool is_in_doubt() const { return phase_ == Phase::kActive && activity() == Activity::kInDoubt; }
    // The message goes on only if a thread of this rank makes progress.
    bool needs_hand() const { return phase_ == Phase::kActive && activity() != Activity::kIdle; }
    // Of a graph, and it waits until other graphs end, of which nobody notifies this rank.
    bool waits_for_graphs() const { return operand_.captured() && phase_ == Phase::kActive && !blocked_on(); }
    // Moves what can be moved.
    void advance();
    // REQUIRES enqueued(). What follows in `stream` comes after the message. Done afterwards.
    base::Result<void> complete_into(device::Stream stream);
    // Its last work was left to whoever completes it.
    bool is_left() const { return LeftList::has(*this); }
    // Its source waits for what is left to whoever completes it.
    virtual bool holds_up_source() const = 0;
    bool is_left_briefly() const { return is_left() && holds_up_source(); }
    // Its end is wanted, and nobody completes it into a stream now: enqueues what was left to the completion.
    void enqueue_left();
    // Enqueues what was left in front of the completion, in an internal stream, if it waits for nothing any more.
    void begin_left();
    // It cannot go on: the peer is lost, a call failed, or it was cancelled. Done once its own copies no longer touch
    // the buffer. These end: whatever they wait for is enqueued, or has been released.
    void fail(base::Error error);
    // Ends it at once: waits for its copies.
    void abandon(base::Error error);
    // Its peer has died: fails it, unless everything that it needed of the peer had come before.
    void fail_unless_complete(const base::Error& error);
    // What it waits for on a device, if anything: a sleeping thread sets an alarm for that.
    std::optional<CompletionPoint> awaited() const;
    // Why it failed, once done.
    std::optional<base::Error>& error() { return error_; }
    const std::optional<base::Error>& error() const { return error_; }
    // For the wait report. Asks the device nothing.
    virtual platform::wait_report::Entry describe() const = 0;
    // The capture that it was started in has ended without it.
    void miss_capture();

    const Operand& operand() const { return operand_; }
    Peer* peer() const { return peer_; } // null as long as it is not known

    // --------------------------------------------------------------------------------------- for protocols
    Resources& resources() const { return resources_; }
    device::Device& device() const { return resources_.device; }
    Operand& operand() { return operand_; }
    StreamUse& work() { return work_; }
    const StreamUse& work() const { return work_; }
    MessageTrace& trace() { return trace_; }
    // A blocking call on a stream: what follows in the stream comes after the message.
    bool ends_in_stream() const { return operand_.on_stream() && !is_request(); }
    // So does one that is made together with others, in the same stream perhaps.
    bool ends_together() const { return operand_.on_stream() && ending_ >= Ending::kTogether && !is_request(); }
    bool is_of_collective() const { return ending_ >= Ending::kOfCollective && !is_request(); }
    bool is_kept() const { return operand_.on_stream() && ending_ == Ending::kKept; }
    bool is_kept_mail() const { return is_kept() || (operand_.on_stream() && ending_ == Ending::kKeptMail); }
    bool ends_by_completion() const { return operand_.on_stream() && is_request(); }
    bool is_request() const { return ending_ == Ending::kByCompletion; }
    // Where the device says when the message moved (trace). In the host's order the host sees that itself.
    device::Times* stream_times() { return operand_.on_stream() ? trace_.times(resources_.trace) : nullptr; }
    std::optional<Route> route() const { return route_; }

    // Everything is enqueued, and has run once `end` has come.
    void end_at(const CompletionPoint& end);
    // The same, where the last of it signals an edge in `stream`.
    base::Result<void> end_behind(Fence& fence, Edge edge, const Slot& slot, device::Stream stream);
    // Of a graph: everything is decided, and is enqueued by the thread that completes it.
    void leave_to_capture() { reach(Phase::kEnqueued); }
    // Of a request on a stream, or one that is kept: the same, or by enqueue_left().
    void leave_to_completion();
    // No bytes move: the message ends where it stands in its order domain.
    base::Result<void> end_in_place();
    void finish();

  protected:
    enum class Phase : uint8_t { kNew, kActive, kEnqueued, kDone };

    Operation(Resources& resources, const Operand& operand, Ending ending)
        : resources_(resources), operand_(operand), ending_(ending), work_(resources, operand_) {}

    // A request on a stream of which nothing is enqueued, and which is about to be completed there: from now on it is
    // as a call that is made together with others.
    void join_stream();

    Phase phase() const { return phase_; }
    void set_active() { phase_ = Phase::kActive; }
    void set_peer(Peer& peer) { peer_ = &peer; }
    void set_route(Route route) {
        route_ = route;
        trace_.chosen(route);
    }
    // After each change: puts the operation into Resources::moving if advance() has something to do, or takes it out.
    void watch();
    // Fails with the error, if there is one.
    void settle(base::Result<void> result);
    platform::wait_report::Entry describe(platform::wait_report::What what) const;

    // ---- the protocol's, by its state
    virtual Activity activity() const = 0;
    virtual base::Result<void> advance_protocol() = 0;
    virtual std::optional<CompletionPoint> blocked_on() const = 0;
    virtual base::Result<bool> is_complete_without_peer() const = 0;
    virtual base::Result<void> await_end(const CompletionPoint& end, device::Stream stream) = 0;
    virtual base::Result<void> complete_captured(device::Stream stream) = 0;
    // What was left, into the stream in which the operation is completed; without one, as if it had not been left.
    virtual base::Result<void> enqueue_left_by_protocol(std::optional<device::Stream> stream) = 0;
    // The same, if it waits for nothing any more. False: it does.
    virtual base::Result<bool> begin_left_by_protocol() = 0;
    virtual void capture_missed() = 0;
    virtual bool ends_by_itself() const = 0;
    // Of one that is active: what is enqueued in the program's own stream uses the buffer until then.
    virtual std::optional<CompletionPoint> end_of_use() const { return std::nullopt; }
    virtual void give_up() = 0;
    virtual void leave_queues() = 0;
    virtual void on_finish() {}
    // The streams of this rank that wait for the peer on this side of messages.
    virtual DependentStreams& dependents() const = 0;

    bool drained() const { return drained_; }
    const std::optional<CompletionPoint>& end() const { return end_; }

  private:
    // For kEnqueued and kDone, which threads wait for.
    void reach(Phase phase) {
        phase_ = phase;
        ++resources_.changes;
    }
    void look_for_end();
    InternalStreams::State stream_state() const;
    StreamEnd stream_end() const;
    [[gnu::noinline]] void tell_trace_of_end();

    Resources& resources_;
    Operand operand_;
    Ending ending_;
    Phase phase_ = Phase::kNew;
    bool drained_ = false; // its end has come: nothing is left in internal streams
    Peer* peer_ = nullptr;
    StreamUse work_;
    MessageTrace trace_;
    std::optional<Route> route_; // once chosen
    std::optional<CompletionPoint> end_;
    EventLease end_event_; // of this operation alone, where no edge says it
    std::optional<base::Error> error_;
};

} // namespace gpurun::transfer
