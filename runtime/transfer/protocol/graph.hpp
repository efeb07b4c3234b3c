// graph: messages of graphs, enqueued once, while a stream is captured (graph_part.hpp).
//
// Always by the thread that captures, since two threads must not add to one graph. A blocking call waits for its match.
// A started request is matched by any thread, and enqueued by the thread that completes it. What a collective reduces
// may be left for the operation that reduces it, which moves it, too (captured_exchange.hpp).
#pragma once

#include "transfer/protocol/graph_part.hpp"

namespace gpurun::transfer {

class GraphSend final : public SendState {
  public:
    static constexpr ProtocolId kProtocol = GraphPart::kProtocol;
    base::Result<Posted> post(Send& send) override;
    Activity activity(const Send&) const override { return Activity::kQueued; }
    std::optional<CompletionPoint> blocked_on(const Send&) const override { return room_; }
    bool awaits_taken() const override { return awaits_taken_.has_value(); }
    base::Result<void> complete_captured(Send& send, device::Stream stream) override;

  private:
    std::optional<CompletionPoint> room_;         // that it waits for, where a device tells
    std::optional<device::Channel> awaits_taken_; // whose end is still to be awaited
};

class GraphReceive final : public ReceiveState {
  public:
    static constexpr ProtocolId kProtocol = GraphPart::kProtocol;
    base::Result<void> start(Receive& receive, const Arrival& arrival) override;
    Activity activity(const Receive& receive) const override;
    base::Result<void> advance(Receive& receive) override;
    base::Result<void> enqueue_left(Receive& receive, std::optional<device::Stream> stream) override;
    base::Result<CapturedExchange::Operand> hand_over_captured(Receive& receive, device::Stream stream) override;
    bool answer_written() const override { return answered_; }
    bool holds_up_source(const Receive& receive) const override;
    void enqueue_captured(Receive& receive, device::Stream stream) override;
    void capture_missed(Receive& receive) override;
    void give_up(Receive& receive) override;
    void describe(const Receive& receive, platform::wait_report::Entry& entry) const override;

  private:
    base::Result<void> map_and_enqueue(Receive& receive);
    base::Result<void> enqueue_started(Receive& receive, const GraphPart::Arrived& arrived, device::Stream stream);
    bool may_be_left(const Receive& receive) const;

    std::optional<GraphPart::Arrived> arrived_; // until it is enqueued
    Envelope envelope_{};
    bool answered_ = false;
    bool mapped_ = false;      // its source's memory; else other memory was there that cannot be unmapped yet
    int64_t mapped_by_ns_ = 0; // else the runs may wait for what comes after this message
};

constexpr std::array<RouteText, 3> kGraphRoutes = {{{"mailbox", "captured into a graph, and counted once"},
                                                    {"direct", "captured into a graph, and counted once"},
                                                    {"bounce", "captured into a graph, and counted once"}}};

} // namespace gpurun::transfer
