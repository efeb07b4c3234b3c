// rendezvous: all other messages, and synchronous ones. The source publishes a ready-to-send that describes its buffer,
// and the bytes stay there until the target has a receive. The target, which alone knows both buffers, chooses the
// protocol that moves them (pull, single copy, relay); its answer brings the send there.
//
// A ready-to-send carries an edge that says when the buffer is ready, if a slot was free. If none was, and the target
// would pull, the target asks for the edge once the message is matched (want-edge). The late slots, which are for this
// alone, are taken by matched messages only, for which both sides have made their calls; so they become free as the
// streams go on.
#pragma once

#include "transfer/fence/slot_ring.hpp"
#include "transfer/state.hpp"

namespace gpurun::transfer {

// If the target reduces the message, the payload may be a RemoteBuffer, into which the target may write what it has
// reduced (SendMode::answer).
struct ReadyToSend {
    RemoteBuffer source;
    Slot edge;           // whose forward edge is signalled when the buffer is ready
    uint64_t stream = 0; // the name of the source's stream in whose order the buffer is read; 0: the host's order
    LoanOrigin origin{}; // of a loan
};

// Want-edge: the target would pull, and the message came without an edge. The answer is a kToReceive of `protocol`,
// whose body is the edge's slot.
struct WantEdge {
    uint64_t receive; // its serial
    ProtocolId protocol;
};

class RendezvousPart final : public ProtocolPart {
  public:
    static constexpr ProtocolId kProtocol = 5;

    explicit RendezvousPart(Peer& peer) : peer_(peer) {}

    base::Result<std::optional<Slot>> take_slot(Fence& fence) { return slots_.take(fence); }
    // For a message that is matched.
    base::Result<std::optional<Slot>> take_late_slot(Fence& fence);
    std::optional<CompletionPoint> next_late_slot() const;
    // The signal of the edge that ends this use is known to be enqueued.
    void settle(const Slot& slot, Edge last);
    void owe_edge(Send& send);
    void forget(Send& send);

    bool quiet() const override { return owing_.empty(); }
    bool needs_hand() const override { return !owing_.empty(); }
    const Operation* first_waiting() const override;
    bool progress() override;

  private:
    Peer& peer_;
    SlotRing slots_{SlotClass::kRendezvous};
    SlotRing late_slots_{SlotClass::kLateEdge};
    base::List<Send, Queued> owing_; // those whose targets wait for an edge
};

class RendezvousSend final : public SendState {
  public:
    static constexpr ProtocolId kProtocol = RendezvousPart::kProtocol;
    base::Result<Posted> post(Send& send) override;
    base::Result<void> on_record(Send& send, const Record& record) override; // the target wants an edge
    Activity activity(const Send& send) const override;
    std::optional<CompletionPoint> blocked_on(const Send& send) const override;
    void give_up(Send& send) override;
    void describe(const Send& send, platform::wait_report::Entry& entry) const override;

    // Gives the edge that the target waits for. False if no slot is free yet.
    base::Result<bool> give_edge(Send& send);

  private:
    base::Result<void> prepare(Send& send);

    bool prepared_ = false;
    ReadyToSend ready_;
    std::optional<RemoteBuffer> answer_; // the record's payload
    WantEdge wanted_{};
};

// Enqueues the forward edge's signal where the send stands in its order domain: the buffer is ready.
base::Result<void> signal_ready(Send& send, Fence& fence, const Slot& slot);
// A message without bytes was answered: it ends where it stands in its order domain.
base::Result<void> end_without_bytes(Send& send);

} // namespace gpurun::transfer
