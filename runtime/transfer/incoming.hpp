// The target's half of one message, from its match until the caller may go on.
//
//   start()    with the message's record: takes the bytes, enqueues their copy, or answers the request
//   advance()  moves what can be moved; done() says that the call may return
//
// Lives in the caller (on its stack); the link points to it while it waits there. Used under the engine lock.
#pragma once

#include "transfer/awaited.hpp"
#include "transfer/link.hpp"
#include "transfer/operand.hpp"
#include "transfer/relay.hpp"

#include <optional>

namespace gpurun::transfer {

class Incoming {
  public:
    // `beside_send`: the caller sends on the same stream at the same time, so that a relay takes a stream of its own.
    Incoming(Context& context, const Operand& operand, bool beside_send)
        : context_(context), operand_(operand), beside_send_(beside_send) {}
    ~Incoming();
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;

    // `payload` need only live during the call.
    base::Result<void> start(Link& link, const Record& record, std::span<const std::byte> payload);
    base::Result<void> advance();

    bool started() const { return link_ != nullptr; }
    bool done() const { return state_ == State::kDone; }
    const Link* link() const { return link_; } // after start()
    // Ends it where it stands: the peer is lost, or a call failed.
    void fail(base::Error error);
    // Why it failed, once done.
    std::optional<base::Error>& error() { return error_; }
    // What the CPU waits for on a device, if it does.
    std::optional<Awaited> awaited() const;

  private:
    void finish();

    enum class State { kNew, kBeforeCopy, kRelay, kDraining, kDone };

    base::Result<void> start_inline(std::span<const std::byte> payload);
    base::Result<void> start_slot();
    base::Result<void> start_request(const Record& record);
    bool can_pull(Choice choice, const Record& record) const;
    base::Result<void> pull(const Record& record, Choice choice);
    base::Result<void> grant(const Record& record, Choice choice);
    // Copies `bytes_` from `from_` behind the forward edge of `slot_`, then signals its backward one.
    base::Result<void> copy_behind_edge();
    base::Result<void> copy_now();
    base::Result<void> copy_on_stream();
    base::Result<void> take_stream();

    Context& context_;
    Link* link_ = nullptr;
    Operand operand_;
    bool beside_send_;
    State state_ = State::kNew;
    uint64_t bytes_ = 0; // that move: the shorter of message and buffer
    SlotValue slot_{};
    const std::byte* from_ = nullptr;
    bool from_host_ = true;
    std::optional<Relay> relay_;
    std::optional<Awaited> awaited_;
    std::optional<device::Stream> borrowed_;
    std::optional<base::Error> error_;
    std::optional<device::Stream> join_; // the caller's stream, which waits for the borrowed one at the end
};

} // namespace gpurun::transfer
