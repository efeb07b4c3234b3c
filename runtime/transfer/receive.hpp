// The target's half of a message: once it is matched, it goes by the protocol of the message's record, or, if that is a
// ready-to-send, by the one that is chosen to move the bytes.
#pragma once

#include "transfer/protocol_table.hpp"

namespace gpurun::transfer {

class Receive final : public OperationBy<Receive, ReceiveState> {
  public:
    Receive(Resources& resources, const Operand& operand, Ending ending) : OperationBy(resources, operand, ending) {}
    ~Receive() override;

    // ---------------------------------------------------------------------------------------- for the engine
    bool started() const { return peer() != nullptr; }
    // Before it is matched: sets the marker of where it stands in its stream.
    base::Result<void> set_marker();
    // Of a request that is completed directly behind its start, in its stream: see Operation::join_stream(). Nothing if
    // its message moves already.
    void end_together() {
        if (phase() == Phase::kNew || is_left())
            join_stream();
    }
    // It borrows what its message lends, and takes no bytes (protocol/loan.hpp).
    void set_borrows() { borrows_ = true; }
    bool borrows() const { return borrows_; }
    // It has this message. `payload` need only live during the call.
    void start(Peer& source, const Record& record, std::span<const std::byte> payload);
    base::Result<void> on_record(const Record& answer) { return give(answer); }
    platform::wait_report::Entry describe() const override;
    // One of a graph begins here, in its stream; without this, where it is completed.
    void set_captured_start(device::Event start) { captured_start_ = start; }
    // What was left, for a reduction that is enqueued in the stream before the rank gives up the engine lock. Done
    // afterwards. REQUIRES is_left().
    base::Result<device::FusedReduction::Operand> hand_over(device::Stream stream);
    // The same in a graph, by the thread that captures.
    base::Result<CapturedExchange::Operand> hand_over_captured(device::Stream stream);
    // The launch that it is part of (FusedMessages); 0: none.
    uint64_t launch() const { return launch_; }

    // --------------------------------------------------------------------------------------- for protocols
    Peer& source() const { return *peer(); }
    uint64_t bytes() const { return bytes_; } // that move: the shorter of message and buffer
    OperationTable<Receive>& answered() const { return source().receives; }
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
    // `stream` will wait for the slot's forward edge, or for what comes behind it: with what is enqueued next, or,
    // with note_dependence(), in an exchange (Exchanges).
    base::Result<void> depend_on(Fence& fence, const Slot& slot, std::optional<device::Stream> stream) {
        resources().exchanges.launch();
        return note_dependence(fence, slot, stream);
    }
    base::Result<void> note_dependence(Fence& fence, const Slot& slot, std::optional<device::Stream> stream);
    // Whether a kernel may spin for the source (KernelBudget); else the stream waits before it.
    bool kernel_may_spin(Fence& fence, const Slot& slot, uint32_t blocks);
    // Copies between pinned host memory and the buffer, in the operand's stream.
    base::Result<void> copy_from_host(const void* from, uint64_t bytes);
    // Everything is enqueued; the last of it copies out of the staging buffer.
    base::Result<void> end_behind(StagingPool::Buffer& staged);
    using Operation::end_behind;
    // It is part of this launch (FusedMessages).
    void set_launch(uint64_t launch) { launch_ = launch; }
    // Of a graph: where it begins in its stream, before it is completed.
    const std::optional<device::Event>& captured_start() const { return captured_start_; }
    bool missed_capture() const { return missed_capture_; }

  private:
    template <typename Operand>
    base::Result<Operand> end_with(base::Result<Operand> handed_over);
    base::Result<void> complete_captured(device::Stream stream) override;
    void capture_missed() override;
    void on_finish() override;
    DependentStreams& dependents() const override { return source().awaiting_forward; }

    bool missed_capture_ = false;
    bool borrows_ = false;
    uint64_t bytes_ = 0;
    uint64_t serial_of_send_ = 0;
    uint64_t launch_ = 0;
    StagingPool::Buffer* staged_ = nullptr;       // whose event is the end
    std::optional<device::Event> captured_start_; // until it is completed
};

} // namespace gpurun::transfer
