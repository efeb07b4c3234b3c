// pieces: host memory in the host's order between ranks without memory in common, longer than what goes inline. The
// send does not wait to be matched: each piece goes into one of the pair's eager buffers, the first one with the
// record, and crosses while the next one is copied. The forward edges say which pieces are there, and the target copies
// them as they come.
#pragma once

#include "transfer/protocol/eager.hpp"

namespace gpurun::transfer {

constexpr size_t kMostPieces = 4;
constexpr size_t kPieceBuffers = 16; // of the pair's eager buffers
constexpr size_t kMostInPieces = kMostPieces * kEagerPiece;

// The body of the message's record: the slots of its pieces, one behind the other.
using PieceSlots = std::array<Slot, kMostPieces>;

class PiecesSend final : public SendState {
  public:
    static constexpr ProtocolId kProtocol = 4;
    base::Result<Posted> post(Send& send) override;

  private:
    base::Result<bool> take_slots(Send& send, Fence& fence);
    base::Result<void> fill_next(Send& send, Fence& fence);

    PieceSlots slots_{};
    size_t pieces_ = 0; // 0: the slots are not taken yet
    size_t filled_ = 0;
};

class PiecesReceive final : public ReceiveState {
  public:
    static constexpr ProtocolId kProtocol = PiecesSend::kProtocol;
    base::Result<void> start(Receive& receive, const Arrival& arrival) override;
    Activity activity(const Receive&) const override { return Activity::kWaiting; }
    base::Result<void> advance(Receive& receive) override;
    std::optional<CompletionPoint> blocked_on(const Receive& receive) const override;

  private:
    size_t bytes_of(const Receive& receive, size_t piece) const; // that the receive takes
    base::Result<std::byte*> buffer(Receive& receive, size_t piece) const;
    void give_back(Fence& fence) const;
    base::Result<void> take_in_stream(Receive& receive, Fence& fence);

    PieceSlots slots_{};
    size_t pieces_ = 0;
    size_t come_ = 0;
};

constexpr std::array<RouteText, 1> kPiecesRoutes = {{{"host", "host memory: does not wait for its match"}}};

} // namespace gpurun::transfer
