// eager: small messages on a stream, or of device memory, through one of the pair's pinned buffers, *in stream order*:
// the forward edge says when a buffer is filled, the backward one when it is free. Nobody waits while there is a
// buffer.
#pragma once

#include "transfer/fence/slot_ring.hpp"
#include "transfer/protocol/edge_copy.hpp"

namespace gpurun::transfer {

class EagerPart final : public ProtocolPart {
  public:
    static constexpr ProtocolId kProtocol = 3;
    SlotRing buffers{SlotClass::kEager};
};

class EagerSend final : public SendState {
  public:
    static constexpr ProtocolId kProtocol = EagerPart::kProtocol;
    base::Result<Posted> post(Send& send) override;

  private:
    base::Result<void> fill(Send& send, Fence& fence);

    Slot slot_{};
    bool filled_ = false; // the buffer is filled, but publish() has found no room
};

class EagerReceive final : public EdgeCopy {
  public:
    static constexpr ProtocolId kProtocol = EagerPart::kProtocol;
    base::Result<void> start(Receive& receive, const Arrival& arrival) override;
};

constexpr std::array<RouteText, 2> kEagerRoutes = {
    {{"staged", "small: does not wait for its match"}, {"self", "small: does not wait for its match"}}};

} // namespace gpurun::transfer
