// What a protocol keeps of one half of a message, its state, and the operation that holds one. The defaults are for a
// protocol that does not need the function.
#pragma once

#include "transfer/operation.hpp"

#include <variant>

namespace gpurun::transfer {

template <typename Half>
class HalfState {
  public:
    virtual ~HalfState() = default;

    // The peer has answered. If another protocol posted the message, its first answer has brought the send here.
    virtual base::Result<void> on_record(Half&, const Record&) { return {}; }
    virtual Activity activity(const Half&) const { return Activity::kIdle; }
    virtual base::Result<void> advance(Half&) { return {}; }
    // What the CPU waits for on a device, while it is active.
    virtual std::optional<CompletionPoint> blocked_on(const Half&) const { return std::nullopt; }
    // Whether its end will come although the peer has died. REQUIRES: it is enqueued.
    virtual base::Result<bool> is_complete_without_peer(const Half&, const CompletionPoint& end) const = 0;
    // It is completed into the stream. True if the stream goes on after the message by what this enqueues; false: by
    // the message's end. REQUIRES: it is enqueued.
    virtual base::Result<bool> complete_into(Half&, device::Stream) { return false; }
    // Whether a failed one that is enqueued comes to its end all the same.
    virtual bool ends_by_itself() const { return false; }
    // It has failed: nothing more is to be enqueued.
    virtual void give_up(Half&) {}
    virtual void describe(const Half&, platform::wait_report::Entry&) const {}
};

enum class Posted {
    kNot,    // this protocol does not take the message, or has no slot for it: the next one is asked
    kNoRoom, // it does, but there is no room in the ring: to be tried again, by this protocol
    kYes,
};

class SendState : public HalfState<Send> {
  public:
    // Posts the message. REQUIRES: the protocol begins messages (protocols.hpp).
    virtual base::Result<Posted> post(Send&) { return Posted::kNot; }
    base::Result<bool> is_complete_without_peer(const Send&, const CompletionPoint& end) const override {
        if (end.on_event())
            return true; // an event of this rank's own, recorded after the target has answered
        GPURUN_ASSIGN(const bool cut_short, end.fence->cut_short(end.edge, end.slot));
        return !cut_short;
    }
    // Of a graph: what follows in the stream, which is captured, comes after the message.
    virtual base::Result<void> complete_captured(Send&, device::Stream) { return {}; }
};

// What the target decides from: the record that starts a message, and what it has found out so far.
struct Arrival {
    const Record& record;
    std::span<const std::byte> payload; // need only live during the call
    Route route{};                      // once chosen
};

class ReceiveState : public HalfState<Receive> {
  public:
    // Takes the bytes, enqueues their copy, or answers the source.
    virtual base::Result<void> start(Receive& receive, const Arrival& arrival) = 0;
    base::Result<bool> is_complete_without_peer(const Receive&, const CompletionPoint&) const override {
        return true; // the message's record has brought everything that is needed of the source
    }
    // Of a graph: the thread that captures completes it. Enqueues it, or fails the receive.
    virtual void enqueue_captured(Receive&) {}
    virtual void capture_missed(Receive&) {}
};

// Makes the state of `protocol` in a variant of all of them, and returns it; null if it has none.
template <typename State, typename States>
State* emplace_state(States& states, ProtocolId protocol) {
    State* made = nullptr;
    const auto try_one = [&]<size_t kIndex>(std::integral_constant<size_t, kIndex>) {
        using Each = std::variant_alternative_t<kIndex, States>;
        if constexpr (!std::is_same_v<Each, std::monostate>)
            if (Each::kProtocol == protocol)
                made = &states.template emplace<kIndex>();
    };
    [&]<size_t... kIndex>(std::index_sequence<kIndex...>) { (try_one(std::integral_constant<size_t, kIndex>()), ...); }
    (std::make_index_sequence<std::variant_size_v<States>>());
    return made;
}

// An operation that goes by a state: a Send or a Receive (`Half`), and one of its States.
template <typename Half, typename State, typename States>
class OperationBy : public Operation, public base::Linked<Half, Queued> {
  public:
    // The name by which its peer answers it.
    uint64_t serial() {
        if (serial_ == 0)
            serial_ = half().answered().add(half());
        return serial_;
    }
    void answer(const Record& record) { settle(half().on_record(record)); }
    State* state() const { return state_; } // null before a protocol has been found

  protected:
    using Operation::Operation;

    void enter(ProtocolId protocol) { state_ = emplace_state<State>(states_, protocol); }
    Activity activity() const override { return state_->activity(half()); }
    base::Result<void> await_end(const CompletionPoint& end, device::Stream stream) override {
        GPURUN_ASSIGN(const bool awaited, state_->complete_into(half(), stream));
        return awaited ? base::Result<void>() : end.await(device(), stream);
    }
    void leave_queues() override {
        if (serial_ != 0)
            half().answered().remove(std::exchange(serial_, 0));
    }

  private:
    Half& half() { return static_cast<Half&>(*this); }
    const Half& half() const { return static_cast<const Half&>(*this); }
    base::Result<void> advance_protocol() final { return state_->advance(half()); }
    std::optional<CompletionPoint> blocked_on() const final {
        return state_ == nullptr ? std::nullopt : state_->blocked_on(half());
    }
    base::Result<bool> is_complete_without_peer() const final {
        return state_->is_complete_without_peer(half(), *end());
    }
    bool ends_by_itself() const final { return state_ != nullptr && state_->ends_by_itself(); }
    void give_up() final {
        if (state_ != nullptr)
            state_->give_up(half());
    }

    State* state_ = nullptr;
    States states_;
    uint64_t serial_ = 0; // among those that wait for an answer; 0: it does not
};

} // namespace gpurun::transfer
