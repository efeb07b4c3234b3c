// The target's half of one message, from its match until the caller may go on.
//
//   start()       with the message's record: takes the bytes, enqueues their copy, or answers the request
//   take_edge()   the edge that the request came without is there
//   advance()     moves what can be moved; done() says that the call may return
//
// Lives with its caller (on the stack, or in a request); the link points to it while it waits there. Used under the
// engine lock.
#pragma once

#include "platform/standing.hpp"
#include "transfer/awaited.hpp"
#include "transfer/link.hpp"
#include "transfer/message_trace.hpp"
#include "transfer/operand.hpp"
#include "transfer/relay.hpp"
#include "transfer/shared_copy.hpp"

#include <memory>
#include <optional>

namespace gpurun::transfer {

class Incoming : public base::Linked<Incoming, Placed>, public base::Linked<Incoming, Moving> {
  public:
    // `beside_send`: the caller sends on the same stream at the same time, so that a relay takes a stream of its own.
    Incoming(Context& context, const Operand& operand, bool beside_send, Ending ending = Ending::kInStream)
        : context_(context), operand_(operand), beside_send_(beside_send), ending_(ending) {}
    ~Incoming();
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;

    // Tells the trace for which messages it is, and which one it has.
    void asks_for(int source, const Envelope& envelope, uint32_t flags) {
        trace_.begin(context_.trace, platform::TraceKind::kReceive, source, envelope, operand_, ending_, flags);
    }
    void matched(uint32_t source, const Envelope& envelope, uint64_t ordinal) {
        trace_.matched(source, envelope, ordinal, operand_.bytes);
    }
    // `payload` need only live during the call.
    base::Result<void> start(Link& link, const Record& record, std::span<const std::byte> payload);
    base::Result<void> take_edge(const SlotValue& edge); // of those in Link::edgeless_in
    base::Result<void> advance();
    // Before start(), once: the stream goes on, and the message remembers its place in it.
    base::Result<void> keep_place();

    bool started() const { return link_ != nullptr; }
    bool done() const { return state_ == State::kDone; }
    // Nothing is left to decide: it is done, or will be when what is enqueued has run.
    bool enqueued() const { return state_ == State::kDraining || state_ == State::kCaptured || done(); }
    // advance() has something to do.
    bool moving() const { return started() && !done() && state_ != State::kCaptured && state_ != State::kToShare; }
    // The next advance() waits for nobody.
    bool busy() const { return state_ == State::kReading; }
    // Only time, the launcher, or the end of some graph's run can tell how it goes on: to be advanced now and then.
    bool in_doubt() const { return state_ == State::kInDoubt || state_ == State::kCovered; }
    // Somebody has to call advance() before the message can go on.
    bool needs_hand() const {
        return state_ == State::kBeforeCopy || state_ == State::kToShare || busy() || in_doubt() ||
               state_ == State::kRelay;
    }
    // REQUIRES that it is the first that its link is to share, and that the link shares none.
    base::Result<void> read_in_turn();
    // The capture that it is for has ended without it.
    void miss_capture();
    // REQUIRES enqueued(). What follows in `stream` comes after the message. Done afterwards.
    base::Result<void> join(device::Stream stream);
    const Link* link() const { return link_; } // after start()
    const Operand& operand() const { return operand_; }
    uint64_t serial() const { return serial_; }
    // That it shares with others (MailBatches); 0: none.
    uint64_t launch() const { return launch_; }
    // It cannot go on: the peer is lost, a call failed, or it was cancelled. Done once its own copies no longer touch
    // the buffer.
    void fail(base::Error error);
    // Ends it at once: waits for its copies.
    void abandon(base::Error error);
    // Whether it will complete although the peer has died: all that it needed of it had come before.
    base::Result<bool> survives() const;
    // Why it failed, once done.
    std::optional<base::Error>& error() { return error_; }
    // What the CPU waits for on a device, if it does.
    std::optional<Awaited> awaited() const;
    // How far it is, for people (situation.cpp). Calls nothing of the device.
    platform::standing::Entry situation() const;

  private:
    // A request that is matched and waits for its edge.
    struct Edgeless {
        SourceBuffer source;
        Choice choice;
    };

    void leave_link();
    void finish();
    [[gnu::noinline]] void tell_trace_of_end();
    Streams::State stream_state() const;
    base::Result<void> finish_in_order();
    void drain(const Awaited& awaited);
    base::Result<void> end_behind(Landing::Buffer& landing);
    // In the host's order, the host sees when copies have ended.
    device::Times* stream_times() const { return operand_.on_stream ? trace_.times(context_.trace) : nullptr; }
    bool ends_in_stream() const { return operand_.on_stream && ending_ == Ending::kInStream; }

    // kToShare: both ranks are to copy it, after others. kCovered: of a graph, and its source lies where other memory
    // was that is mapped, and cannot be unmapped yet.
    enum class State {
        kNew,
        kEdgeless,
        kBeforeCopy,
        kToShare,
        kReading,
        kInDoubt,
        kRelay,
        kCovered,
        kCaptured,
        kDraining,
        kDone
    };

    void count(Choice choice, uint64_t bytes);
    base::Result<void> start_inline(std::span<const std::byte> payload);
    base::Result<void> start_captured(const Record& record);
    base::Result<void> uncover();
    base::Result<void> enqueue_captured();
    static base::Error missed_capture();
    base::Result<void> take_branch();
    base::Result<void> join_branch(device::Stream stream);
    base::Result<void> start_slot();
    base::Result<void> start_request(const Record& record);
    bool can_pull(Choice choice, const Record& record) const;
    base::Result<void> want_edge(const Record& record, Choice choice);
    base::Result<void> pull(const SourceBuffer& source, Choice choice);
    base::Result<void> grant(Choice choice);
    void answer_pulled(Choice choice, bool unreadable = false);
    static base::Error source_died();
    base::Result<void> start_reading();
    bool can_share_copy() const;
    void share_copy();
    void stop_sharing();
    base::Result<void> read_shared();
    base::Result<void> read_from_peer();
    base::Result<void> doubt_peer(base::Error error);
    // Copies `bytes_` from `from_` behind the forward edge of `slot_`, then signals its backward one.
    base::Result<void> copy_behind_edge(bool source_awaits);
    base::Result<void> copy_now();
    base::Result<void> take_mail(uint64_t mail_bytes);
    base::Result<bool> place_is_over();
    base::Result<void> share_kernel(Fence& fence, device::Mail mail);
    base::Result<device::Event> mark_end();
    base::Result<bool> take_lane(Fence& fence, bool ready);
    base::Result<void> copy_on_stream();
    base::Result<void> copy_by_kernel(Fence& fence, bool ready, bool kernel_waits);
    base::Result<void> copy_by_engine(Fence& fence, bool ready);
    // `stream` will wait for the forward edge.
    base::Result<void> note_source(Fence& fence, device::Stream stream);
    // Everything is enqueued, and signals the backward edge at its end.
    base::Result<void> leave_to_stream(Fence& fence);
    bool kernel_may_wait(Fence& fence, uint32_t size) const;
    bool copies_by_kernel() const;
    base::Result<void> take_stream(bool waits_for_peer = true);

    Context& context_;
    Link* link_ = nullptr;
    Operand operand_;
    bool beside_send_;
    Ending ending_;
    State state_ = State::kNew;
    MessageTrace trace_;
    uint64_t bytes_ = 0; // that move: the shorter of message and buffer
    SlotValue slot_{};
    const std::byte* from_ = nullptr;  // in the peer's process, with kReading and kToShare
    uint64_t read_ = 0;                // of it so far
    std::optional<SharedCopy> shared_; // while the source writes, too
    int64_t verdict_by_ns_ = 0;        // with kInDoubt and kCovered
    uint64_t serial_ = 0;              // of the request
    std::optional<Edgeless> edgeless_;
    std::optional<device::Stream> branch_;   // of a graph, in which a captured message that was started moves
    std::unique_ptr<const Record> captured_; // of a graph: is matched, and not yet enqueued
    bool missed_ = false;                    // its capture has ended
    bool from_host_ = true;
    std::optional<Path> path_; // once chosen
    std::optional<Relay> relay_;
    std::optional<Awaited> awaited_;
    std::optional<device::Stream> borrowed_;
    std::optional<device::Stream> signals_; // of a lane: beside the copy
    bool shares_kernel_ = false;            // which ends in the edge that awaited_ names
    uint64_t launch_ = 0;                   // of that kernel (MailBatches); 0: of none
    bool drained_ = false;                  // what awaited_ named has come: nothing is left in borrowed_
    std::optional<Place> kept_place_;       // in the operand's stream
    std::optional<device::Event> end_;      // of its copies, when no edge says it
    Landing::Buffer* landing_ = nullptr;    // whose event is the end
    std::optional<base::Error> error_;
    std::optional<device::Stream> join_; // the caller's stream, which waits for the borrowed one at the end
};

} // namespace gpurun::transfer
