// The source's half of one message, from the call until the caller may go on.
//
//   post()      puts the message's record into the ring: inline, through an eager slot, or as a request
//   answered()  the target has chosen: it pulls (direct), or the source fills a relay
//   advance()   moves what can be moved; done() says that the call may return
//
// Lives in the caller (on its stack); the link points to it while it waits there. Used under the engine lock.
#pragma once

#include "transfer/awaited.hpp"
#include "transfer/link.hpp"
#include "transfer/operand.hpp"
#include "transfer/relay.hpp"

#include <optional>

namespace gpurun::transfer {

// Inline and eager bytes that a peer may not have matched yet; beyond them messages wait for their match.
constexpr uint64_t kEagerCreditBytes = 1 << 20;

class Outgoing {
  public:
    Outgoing(Context& context, Link& link, const Operand& operand, const Envelope& envelope)
        : context_(context), link_(link), operand_(operand), envelope_(envelope) {}
    ~Outgoing();
    Outgoing(const Outgoing&) = delete;
    Outgoing& operator=(const Outgoing&) = delete;

    // False if there is no room yet: to be tried again, before any later message to the peer.
    base::Result<bool> post();
    base::Result<void> answered(const Record& answer);
    base::Result<void> advance();

    bool done() const { return state_ == State::kDone; }
    uint64_t serial() const { return serial_; }
    const Link& link() const { return link_; }
    // Ends it where it stands: the peer is lost, or a call failed.
    void fail(base::Error error);
    // Why it failed, once done.
    std::optional<base::Error>& error() { return error_; }
    // What the CPU waits for on a device, if it does.
    std::optional<Awaited> awaited() const;

  private:
    void finish();

    enum class State { kNew, kUnanswered, kRelay, kDraining, kDone };

    bool inline_fits() const;
    bool slot_fits() const;
    base::Result<bool> post_inline();
    base::Result<bool> post_slot(const SlotValue& slot);
    base::Result<bool> post_request();
    base::Result<void> describe_source(SourceBuffer& source);
    base::Result<void> pulled(const Record& answer);
    base::Result<void> granted(const Record& answer);
    base::Result<void> take_stream();
    bool push(const Record& record, std::span<const std::byte> payload = {});

    Context& context_;
    Link& link_;
    Operand operand_;
    Envelope envelope_;
    State state_ = State::kNew;
    uint64_t serial_ = 0;
    SlotValue slot_{};
    bool signalled_ = false; // slot_'s forward edge, before a push that found no room
    std::optional<Relay> relay_;
    std::optional<Awaited> awaited_;
    std::optional<device::Stream> borrowed_;
    std::optional<base::Error> error_;
};

} // namespace gpurun::transfer
