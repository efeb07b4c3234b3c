// relay: a message crosses in chunks through a window of buffers between the two ranks (relay_pipeline.hpp). For
// everything that cannot be pulled. Through pinned host memory (staged; host between host buffers), or through memory
// on the source's device (bounce). The target allots the window (clear-to-send).
//
// A source that cannot read its buffer tells the target (source-failed). Once that has answered, the rest of the chunks
// cross with nothing in them, so that the window is in step for the next message, and both halves fail behind them.
#pragma once

#include "transfer/protocol/pull.hpp"
#include "transfer/protocol/relay_part.hpp"
#include "transfer/protocol/relay_pipeline.hpp"

namespace gpurun::transfer {

// By which route a message is relayed that no other protocol moves.
Route find_relay(Receive& receive, const ReadyToSend& ready, NotPulled not_pulled, bool single_copy_refused);

class RelaySend final : public SendState {
  public:
    static constexpr ProtocolId kProtocol = RelayPart::kProtocol;
    base::Result<void> on_record(Send& send, const Record& clear_to_send) override;
    Activity activity(const Send&) const override { return Activity::kWaiting; }
    base::Result<void> advance(Send& send) override;
    std::optional<CompletionPoint> blocked_on(const Send& send) const override;
    // Filled buffers are worth nothing before they are drained.
    base::Result<bool> is_complete_without_peer(const Send&, const CompletionPoint&) const override { return false; }
    void give_up(Send& send) override;
    void describe(const Send& send, platform::wait_report::Entry& entry) const override;

  private:
    void tell_failed(Send& send, bool goes_on);

    std::optional<RelayPipeline> pipeline_;
    uint64_t receive_ = 0; // its serial
    bool told_failed_ = false;
};

class RelayReceive final : public ReceiveState {
  public:
    static constexpr ProtocolId kProtocol = RelayPart::kProtocol;
    base::Result<void> start(Receive& receive, const Arrival& arrival) override;
    base::Result<void> on_record(Receive& receive, const Record& source_failed) override;
    Activity activity(const Receive&) const override { return Activity::kWaiting; }
    base::Result<void> advance(Receive& receive) override;
    std::optional<CompletionPoint> blocked_on(const Receive& receive) const override;
    base::Result<bool> is_complete_without_peer(const Receive&, const CompletionPoint&) const override { return false; }
    void give_up(Receive& receive) override;
    void describe(const Receive& receive, platform::wait_report::Entry& entry) const override;

  private:
    base::Result<bool> step(Receive& receive);

    std::optional<RelayPipeline> pipeline_;
    bool source_failed_ = false;
};

constexpr std::array<RouteText, 15> kRelayRoutes = {{
    {"self", "same process"},
    {"staged", "memory of another device than the rank's"},
    {"host", "host memory"},
    {"host", "host memory; the system refuses to read the sender's"},
    {"staged", "one buffer is host memory"},
    {"bounce", "pinned memory"},
    {"staged", "GPURUN_PATH"},
    {"staged", "the ranks have no memory in common"},
    {"staged", "no peer access"},
    {"staged", "a test copy between the devices failed"},
    {"bounce", "GPURUN_PATH"},
    {"bounce", "memory cannot be exported"},
    {"bounce", "GPURUN_PATH=direct, but the memory cannot be exported"},
    {"bounce", "the first message of a large allocation"},
    {"bounce", "memory that the receiver's device refuses to map"},
}};

} // namespace gpurun::transfer
