// The target's half of a message, once it is matched: start() by its record, then by the protocol that takes it.
#pragma once

#include "transfer/operation.hpp"

namespace gpurun::transfer {

class Receive;

// What the target decides from: the record that starts a message, and what it has found out so far.
struct Arrival {
    const Record& record;
    std::span<const std::byte> payload; // need only live during the call
    Route route{};                      // once chosen
};

// What one protocol keeps of a receive. Each slot's default is for one that needs nothing of it.
class ReceiveState {
  public:
    virtual ~ReceiveState() = default;

    // Takes the bytes, enqueues their copy, or answers the source.
    virtual base::Result<void> start(Receive& receive, const Arrival& arrival) = 0;
    virtual base::Result<void> on_record(Receive& receive, const Record& record) {
        (void)receive, (void)record;
        return {};
    }
    virtual Activity activity(const Receive& receive) const {
        (void)receive;
        return Activity::kIdle;
    }
    virtual base::Result<void> advance(Receive& receive) {
        (void)receive;
        return {};
    }
    // What it waits for on a device, while it is active.
    virtual std::optional<CompletionPoint> blocked_on(const Receive& receive) const {
        (void)receive;
        return std::nullopt;
    }
    // Whether its end will come although the source has died. REQUIRES: it is enqueued.
    virtual base::Result<bool> is_complete_without_peer(const Receive& receive) const {
        (void)receive;
        return true; // the message's record has brought everything that is needed of the source
    }
    // Enqueue: `stream` goes on after the message. REQUIRES that it is enqueued.
    virtual base::Result<void> await_end(Receive& receive, const CompletionPoint& end, device::Stream stream);
    // Of a graph: the thread that captures completes it. Enqueues it, or fails the receive.
    virtual void enqueue_captured(Receive& receive) { (void)receive; }
    virtual void capture_missed(Receive& receive) { (void)receive; }
    // Whether a failed one that is enqueued comes to its end all the same.
    virtual bool ends_by_itself() const { return false; }
    // It has failed: nothing more is to be enqueued.
    virtual void give_up(Receive& receive) { (void)receive; }
    virtual void describe(const Receive& receive, platform::wait_report::Entry& entry) const {
        (void)receive, (void)entry;
    }
};

class Receive : public Operation, public base::Linked<Receive, Queued> {
  public:
    ~Receive() override;

    // ---------------------------------------------------------------------------------------- for the engine
    bool started() const { return peer() != nullptr; }
    // Before it is matched: sets the marker of where it stands in its stream.
    base::Result<void> set_marker();
    void answer(const Record& record) { settle(state_->on_record(*this, record)); }
    void started_by(base::Result<void> started) { settle(std::move(started)); }
    platform::wait_report::Entry describe() const override;
    // The launch of mails that it is part of (FusedMails); 0: none.
    uint64_t launch() const { return launch_; }

    // --------------------------------------------------------------------------------------- for protocols
    Peer& source() const { return *peer(); }
    uint64_t bytes() const { return bytes_; } // that move: the shorter of message and buffer
    // The caller sends on the same stream at the same time.
    bool beside_send() const { return beside_send_; }
    // The name by which its source answers it.
    uint64_t serial();
    // The name of the source's send, for answers.
    uint64_t serial_of_send() const { return serial_of_send_; }
    void count(Route route, uint64_t message_bytes) {
        set_route(route);
        source().received.count(route, message_bytes);
    }
    // Takes the stream for the message's work: the operand's own in blocking calls, else an internal one.
    base::Result<void> take_stream(bool waits_for_peer);
    // The name of the operand's stream, as long as that is the program's; 0: the host.
    base::Result<uint64_t> stream_name();
    // Whether everything that is before the message in the program's stream is over.
    base::Result<bool> is_marker_passed();
    // `stream` will wait for the slot's forward edge, or for what comes behind it.
    base::Result<void> depend_on(Fence& fence, const Slot& slot, std::optional<device::Stream> stream);
    // Whether a kernel may spin for the source (KernelBudget); else the stream waits before it.
    bool kernel_may_spin(Fence& fence, const Slot& slot, uint32_t blocks);
    // Copies between pinned host memory and the buffer, in the operand's stream.
    base::Result<void> copy_from_host(const void* from, uint64_t bytes);
    // Everything is enqueued; the last of it copies out of the staging buffer.
    base::Result<void> end_behind(StagingPool::Buffer& staged);
    using Operation::end_behind;
    // It is part of this launch of mails (FusedMails).
    void set_launch(uint64_t launch) { launch_ = launch; }
    // A branch of the capture in which a started receive of a graph moves.
    base::Result<void> take_branch();
    std::optional<device::Stream> branch() const { return branch_; }
    void give_branch_back();
    bool missed_capture() const { return missed_capture_; }

  protected:
    Receive(Resources& resources, const Operand& operand, bool beside_send, Ending ending)
        : Operation(resources, operand, ending), beside_send_(beside_send) {}
    void set_state(ReceiveState& state) { state_ = &state; }
    // It is matched to this message.
    void begin(Peer& source, const Record& record);

  private:
    Activity activity() const override { return state_->activity(*this); }
    base::Result<void> advance_protocol() override { return state_->advance(*this); }
    std::optional<CompletionPoint> blocked_on() const override {
        return state_ == nullptr ? std::nullopt : state_->blocked_on(*this);
    }
    base::Result<bool> is_complete_without_peer() const override { return state_->is_complete_without_peer(*this); }
    base::Result<void> await_end(const CompletionPoint& end, device::Stream stream) override {
        return state_->await_end(*this, end, stream);
    }
    base::Result<void> complete_captured(device::Stream stream) override;
    void capture_missed() override;
    bool ends_by_itself() const override { return state_ != nullptr && state_->ends_by_itself(); }
    void give_up() override {
        if (state_ != nullptr)
            state_->give_up(*this);
    }
    void leave_queues() override;
    void on_finish() override;
    DependentStreams& dependents() const override { return source().awaiting_forward; }

    bool beside_send_;
    bool missed_capture_ = false;
    ReceiveState* state_ = nullptr; // once it is matched
    uint64_t bytes_ = 0;
    uint64_t serial_ = 0; // in Peer::receives; 0: in none
    uint64_t serial_of_send_ = 0;
    uint64_t launch_ = 0;
    StagingPool::Buffer* staged_ = nullptr; // whose event is the end
    std::optional<device::Stream> branch_;
};

} // namespace gpurun::transfer
