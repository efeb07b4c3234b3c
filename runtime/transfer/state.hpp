// What a protocol keeps of one half of a message, its state, and the operation that holds one. The defaults are for a
// protocol that does not need the function.
#pragma once

#include "transfer/operation.hpp"
#include "transfer/resources.hpp"

#include <cstddef>
#include <new>

namespace gpurun::transfer {

template <typename Half>
class HalfState {
  public:
    virtual ~HalfState() = default;

    // The peer has answered. If another protocol posted the message, its first answer has brought the send here.
    virtual base::Result<void> on_record(Half&, const Record&) { return {}; }
    // Whether what on_record() enqueues goes behind what is collected (Exchanges), by itself.
    virtual bool joins_exchange(const Half&) const { return false; }
    virtual Activity activity(const Half&) const { return Activity::kIdle; }
    virtual base::Result<void> advance(Half&) { return {}; }
    // What the CPU waits for on a device, while it is active.
    virtual std::optional<CompletionPoint> blocked_on(const Half&) const { return std::nullopt; }
    // Whether its end will come although the peer has died. REQUIRES: it is enqueued.
    virtual base::Result<bool> is_complete_without_peer(const Half&, const CompletionPoint& end) const = 0;
    // It is completed into the stream. True if the stream goes on after the message by what this enqueues; false: by
    // the message's end. REQUIRES: it is enqueued.
    virtual base::Result<bool> complete_into(Half&, device::Stream) { return false; }
    // What it has left to the completion (leave_to_completion), into that stream, or, without one, as if it had not.
    virtual base::Result<void> enqueue_left(Half&, std::optional<device::Stream>) { return {}; }
    // The same in front of the completion, if it waits for nothing any more. False: it does.
    virtual base::Result<bool> begin_left(Half&) { return false; }
    // Whether its peer waits for what was left.
    virtual bool holds_up_source(const Half&) const { return false; }
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
    static constexpr size_t kMostBytes = 304; // that a state takes
    // Posts the message. REQUIRES: the protocol begins messages (protocols.hpp).
    virtual base::Result<Posted> post(Send&) { return Posted::kNot; }
    base::Result<bool> is_complete_without_peer(const Send&, const CompletionPoint& end) const override {
        if (end.on_event())
            return true; // an event of this rank's own, recorded after the target has answered
        GPURUN_ASSIGN(const bool cut_short, end.fence->cut_short(end.edge, end.slot));
        return !cut_short;
    }
    // Of a graph: whether it is complete, in the stream, only once its target has taken it.
    virtual bool awaits_taken() const { return false; }
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
    static constexpr size_t kMostBytes = 320;
    // Takes the bytes, enqueues their copy, or answers the source.
    virtual base::Result<void> start(Receive& receive, const Arrival& arrival) = 0;
    base::Result<bool> is_complete_without_peer(const Receive&, const CompletionPoint&) const override {
        return true; // the message's record has brought everything that is needed of the source
    }
    // What was left, for a reduction in the stream.
    virtual base::Result<device::FusedReduction::Operand> hand_over(Receive&, device::Stream) {
        return base::Error{base::Status::kInternal, "only what was left is handed over"};
    }
    // The same in a graph.
    virtual base::Result<CapturedExchange::Operand> hand_over_captured(Receive&, device::Stream) {
        return base::Error{base::Status::kInternal, "only what was left is handed over"};
    }
    // Whether it was handed over, and the answer of it written, too (SendMode::answer).
    virtual bool answer_written() const { return false; }
    // Of a graph: the thread that captures completes it into the stream. Enqueues it, or fails the receive.
    virtual void enqueue_captured(Receive&, device::Stream) {}
    virtual void capture_missed(Receive&) {}
};

// Room for one state, in place.
template <typename State>
class StateHolder {
  public:
    static constexpr size_t kBytes = State::kMostBytes;

    StateHolder() = default;
    StateHolder(const StateHolder&) = delete;
    StateHolder& operator=(const StateHolder&) = delete;
    ~StateHolder() { clear(); }

    State* get() const { return state_; } // null: none was made
    // In place of the one before.
    template <typename Each>
    void make() {
        static_assert(sizeof(Each) <= kBytes && alignof(Each) <= alignof(std::max_align_t), "raise State::kMostBytes");
        clear();
        state_ = ::new (static_cast<void*>(bytes_)) Each();
    }

  private:
    void clear() {
        if (state_ != nullptr)
            std::exchange(state_, nullptr)->~State();
    }

    State* state_ = nullptr;
    alignas(std::max_align_t) std::byte bytes_[kBytes];
};

// An operation that goes by a state: a Send or a Receive (`Half`).
template <typename Half, typename State>
class OperationBy : public Operation, public base::Linked<Half, Queued> {
  public:
    // The name by which its peer answers it.
    uint64_t serial() {
        if (serial_ == 0)
            serial_ = half().answered().add(half());
        return serial_;
    }
    void answer(const Record& record) { settle(half().on_record(record)); }
    bool holds_up_source() const final { return state() != nullptr && state()->holds_up_source(half()); }
    State* state() const { return state_.get(); } // null before a protocol has been found

  protected:
    using Operation::Operation;

    base::Result<void> give(const Record& answer) {
        if (!state()->joins_exchange(half()))
            resources().exchanges.launch(); // before what this may let the stream wait for
        return state()->on_record(half(), answer);
    }
    StateHolder<State>& holder() { return state_; }
    Activity activity() const override { return state()->activity(half()); }
    base::Result<void> await_end(const CompletionPoint& end, device::Stream stream) override {
        GPURUN_ASSIGN(const bool awaited, state()->complete_into(half(), stream));
        return awaited ? base::Result<void>() : await_beside(resources(), end, stream);
    }
    void leave_queues() override {
        if (serial_ != 0)
            half().answered().remove(std::exchange(serial_, 0));
    }

  private:
    Half& half() { return static_cast<Half&>(*this); }
    const Half& half() const { return static_cast<const Half&>(*this); }
    base::Result<void> advance_protocol() final {
        resources().exchanges.launch();
        return state()->advance(half());
    }
    std::optional<CompletionPoint> blocked_on() const final {
        return state() == nullptr ? std::nullopt : state()->blocked_on(half());
    }
    base::Result<bool> is_complete_without_peer() const final {
        return state()->is_complete_without_peer(half(), *end());
    }
    base::Result<void> enqueue_left_by_protocol(std::optional<device::Stream> stream) final {
        return state()->enqueue_left(half(), stream);
    }
    base::Result<bool> begin_left_by_protocol() final { return state()->begin_left(half()); }
    bool ends_by_itself() const final { return state() != nullptr && state()->ends_by_itself(); }
    void give_up() final {
        if (state() != nullptr)
            state()->give_up(half());
    }

    StateHolder<State> state_;
    uint64_t serial_ = 0; // among those that wait for an answer; 0: it does not
};

} // namespace gpurun::transfer
