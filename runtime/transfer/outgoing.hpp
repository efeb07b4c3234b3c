// The source's half of one message, from the call until the caller may go on.
//
//   post()      puts the message's record into the ring: inline, through an eager slot, or as a request. Of a graph,
//               it has nothing more to do after that
//   give_edge() a request that was posted without an edge gets one, once it is matched
//   answered()  the target has chosen: it pulls (direct), or the source fills a relay
//   advance()   moves what can be moved; done() says that the call may return
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

#include <optional>

namespace gpurun::transfer {

// Inline and eager bytes that a peer may not have matched yet; beyond them messages wait for their match.
constexpr uint64_t kEagerCreditBytes = 1 << 20;

struct SendMode {
    Ending ending = Ending::kInStream;
    bool synchronous = false; // not done before it is matched
};

class Outgoing : public base::Linked<Outgoing, Unposted>,
                 public base::Linked<Outgoing, Owing>,
                 public base::Linked<Outgoing, Placed>,
                 public base::Linked<Outgoing, Moving> {
  public:
    Outgoing(Context& context, Link& link, const Operand& operand, const Envelope& envelope, SendMode mode = {})
        : context_(context), link_(link), operand_(operand), envelope_(envelope), mode_(mode) {
        if (operand.captured)
            envelope_.context |= kCapturedContexts;
        trace_.begin(context.trace, platform::TraceKind::kSend, static_cast<int>(link.peer), envelope_, operand_,
                     mode.ending, mode.synchronous ? platform::trace_flags::kSynchronous : 0);
    }
    ~Outgoing();
    Outgoing(const Outgoing&) = delete;
    Outgoing& operator=(const Outgoing&) = delete;

    // A small host message, if it can go now: nothing is left of it on this side. REQUIRES that it is of
    // that kind, and that no earlier message to the peer waits.
    static bool send_at_once(Context& context, Link& link, const std::byte* payload, const Envelope& envelope);
    // Whether it is of that kind.
    static bool fits_inline(const Context& context, const Operand& operand, SendMode mode) {
        return !mode.synchronous && operand.by_cpu() && operand.bytes <= context.settings.eager_bytes;
    }
    // Whether it may be posted a little later, to share a kernel with others: one in a stream after keep_place().
    bool may_share_kernel() const { return is_shareable() && mail_fits(); }
    bool on_stream() const { return operand_.on_stream; }
    // False if there is no room yet: to be tried again, before any later message to the peer.
    base::Result<bool> post();
    // Before a post() that comes later, or after one that found no room: the stream goes on, and the message remembers
    // its place in it.
    base::Result<void> keep_place();
    void note_held_up() { trace_.held_up(); }
    base::Result<void> answered(const Record& answer);
    // The target reads the message, and would have help.
    void share_copy(const Record& record);
    // Of those in Link::owing_edge. False if no slot is free yet: all are in use by messages that are matched.
    base::Result<bool> give_edge();
    base::Result<void> advance();

    bool done() const { return state_ == State::kDone; }
    // Nothing is left to decide: it is done, or will be when what is enqueued has run.
    bool enqueued() const { return state_ == State::kDraining || done(); }
    // Of a graph, until other graphs end: nobody rings then.
    bool waits_for_graphs() const { return state_ == State::kNew && operand_.captured && !awaited_; }
    // advance() has something to do.
    bool moving() const { return state_ == State::kRelay || state_ == State::kDraining || shared_; }
    // The next advance() waits for nobody.
    bool busy() const { return shared_.has_value(); }
    // Somebody has to call advance(), or post(), before the message can go on.
    bool needs_hand() const {
        return state_ == State::kNew || state_ == State::kRelay || base::List<Outgoing, Owing>::has(*this);
    }
    bool matched() const { return matched_; } // its target has said so
    // REQUIRES enqueued(). What follows in `stream` comes after the message. Done afterwards.
    base::Result<void> join(device::Stream stream);
    uint64_t serial() const { return serial_; }
    const Link& link() const { return link_; }
    uint32_t context() const { return envelope_.context; }
    // It cannot go on: the peer is lost, or a call failed. Done once its own copies no longer touch the buffer.
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
    void leave_link();
    void finish();
    [[gnu::noinline]] void tell_trace_of_end();
    Streams::State stream_state() const;

    enum class State { kNew, kUnanswered, kRelay, kDraining, kDone };

    bool ends_in_stream() const { return operand_.on_stream && mode_.ending == Ending::kInStream; }
    // In the host's order, the host sees when copies have ended.
    device::Times* stream_times() const { return operand_.on_stream ? trace_.times(context_.trace) : nullptr; }
    bool is_joined() const { return operand_.on_stream && mode_.ending == Ending::kJoined; }
    void drain(const Awaited& awaited);

    bool mail_fits() const;
    bool is_shareable() const {
        return mode_.ending == Ending::kJoined && !mode_.synchronous && !operand_.captured && is_small_mail();
    }
    base::Result<bool> can_share_now();
    bool is_small_mail() const { return envelope_.bytes <= device::kSmallMailBytes; }
    base::Result<std::optional<SlotValue>> take_mail_slot(Fence& fence);
    bool slot_fits() const;
    base::Result<bool> post_slot(const SlotValue& slot);
    base::Result<bool> post_mail(const SlotValue& slot);
    void count(Choice choice);
    bool push_slot(Choice choice);
    void leave_to_stream(Fence& fence);
    base::Result<bool> post_captured();
    base::Result<bool> post_request();
    base::Result<void> signal_ready(Fence& fence, const SlotValue& slot);
    base::Result<void> end_in_place();
    base::Result<void> pulled(const Record& answer);
    base::Result<void> granted(const Record& answer);
    void write_shared();
    base::Result<void> take_stream(bool waits_for_peer = true);
    void note_stream();
    base::Result<void> leave_stream();
    base::Result<void> await_end(device::Stream stream);
    bool push(const Record& record, std::span<const std::byte> payload = {});

    Context& context_;
    Link& link_;
    Operand operand_;
    Envelope envelope_;
    SendMode mode_;
    State state_ = State::kNew;
    MessageTrace trace_;
    uint64_t serial_ = 0;
    SlotValue slot_{};
    bool matched_ = false;
    bool signalled_ = false;   // slot_'s forward edge, before a push that found no room
    std::optional<Path> path_; // once chosen
    std::optional<Relay> relay_;
    std::optional<SharedCopy> shared_;
    uint64_t shared_address_ = 0; // in the target's process
    std::optional<Awaited> awaited_;
    std::optional<device::Stream> borrowed_;
    bool shares_kernel_ = false;           // which ends in the edge that awaited_ names
    uint64_t launch_ = 0;                  // of that kernel (MailBatches); 0: of none
    uint64_t moves_in_ = 0;                // the name of the user's stream in which all of it is; 0: of none
    bool drained_ = false;                 // what awaited_ named has come: nothing is left in borrowed_
    std::optional<device::Channel> taken_; // of a graph's message, whose end is still to be awaited
    std::optional<Place> kept_place_;      // in the operand's stream
    std::optional<device::Event> end_;     // of the message, when no edge says it
    std::optional<base::Error> error_;
};

} // namespace gpurun::transfer
