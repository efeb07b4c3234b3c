// single copy: large messages between host memory in the host's order. The target's CPU reads the source's memory, a
// piece at a time, so that nobody waits long for the engine lock, and then tells the source (finish).
//
// From some size on the target says first where the bytes go (share). A source that is in a call then writes pieces
// from the back, while the target reads from the front, until they meet (shared_copy.hpp). In each direction one
// message comes after the other, so that both ranks always copy the same one. But no message waits for one that is far
// longer: the target reads it at once, alone.
#pragma once

#include "transfer/protocol/rendezvous.hpp"
#include "transfer/protocol/shared_copy.hpp"

namespace gpurun::transfer {

class SingleCopyPart final : public ProtocolPart {
  public:
    static constexpr ProtocolId kProtocol = 6;

    explicit SingleCopyPart(Peer& peer) : peer_(peer) {}

    // Whether a message that both ranks can copy has to wait for its turn.
    bool has_to_wait(uint64_t bytes) const;
    void wait(Receive& receive);
    void forget(Receive& receive);
    // One is being shared.
    void begin_sharing(uint64_t bytes);
    void end_sharing() { sharing_ = false; }
    bool can_share_next() const { return !sharing_; }

    bool quiet() const override { return waiting_.empty(); }
    bool needs_hand() const override { return !waiting_.empty(); }
    bool progress() override;
    void lose(const base::Error& error) override;

  private:
    Peer& peer_;
    bool sharing_ = false;
    base::List<Receive, Queued> waiting_; // in the order of their matches
    uint64_t longest_ = 0;                // no less than the longest of these and of the one that is shared
};

// Whether a message goes by one copy; if it would, and the system forbids it, `refused` is set.
std::optional<Route> find_single_copy(Receive& receive, const ReadyToSend& ready, uint64_t message_bytes,
                                      bool& refused);

class SingleCopySend final : public SendState {
  public:
    static constexpr ProtocolId kProtocol = SingleCopyPart::kProtocol;
    base::Result<void> on_record(Send& send, const Record& record) override;
    Activity activity(const Send& send) const override;
    base::Result<void> advance(Send& send) override; // writes a piece
    void give_up(Send& send) override;
    void describe(const Send& send, platform::wait_report::Entry& entry) const override;

  private:
    std::optional<SharedCopy> shared_;
    uint64_t into_ = 0; // in the target's process
};

class SingleCopyReceive final : public ReceiveState {
  public:
    static constexpr ProtocolId kProtocol = SingleCopyPart::kProtocol;
    base::Result<void> start(Receive& receive, const Arrival& arrival) override;
    Activity activity(const Receive& receive) const override;
    base::Result<void> advance(Receive& receive) override; // reads a piece
    void give_up(Receive& receive) override;
    void describe(const Receive& receive, platform::wait_report::Entry& entry) const override;

    // Its turn has come.
    base::Result<void> share_in_turn(Receive& receive);

  private:
    // kStopping: no more pieces are taken, and the target waits until the source has finished those that it has taken.
    enum class Step : uint8_t { kTurn, kReading, kStopping, kInDoubt };

    void share(Receive& receive);
    base::Result<void> read(Receive& receive);
    base::Result<void> read_shared(Receive& receive);
    base::Result<void> stop(Receive& receive);
    base::Result<void> doubt(Receive& receive, base::Error error);
    base::Result<void> look_for_verdict(Receive& receive);
    void finish(Receive& receive, bool unreadable);

    Step step_ = Step::kReading;
    uint64_t from_ = 0; // in the source's process
    uint64_t read_ = 0; // of it so far
    std::optional<SharedCopy> shared_;
    std::optional<base::Error> failure_; // of a read, while it stops or is in doubt
    int64_t verdict_by_ns_ = 0;
};

constexpr std::array<RouteText, 1> kSingleCopyRoutes = {{{"host", "host memory, read from the sender"}}};

} // namespace gpurun::transfer
