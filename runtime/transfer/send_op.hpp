// A send with the state of the protocol by which it goes.
#pragma once

#include "transfer/protocols.hpp"

namespace gpurun::transfer {

class SendOp final : public Send {
  public:
    SendOp(Resources& resources, Peer& target, const Operand& operand, const Envelope& envelope, const Mode& mode = {})
        : Send(resources, target, operand, envelope, mode) {}

  private:
    base::Result<Posted> post() override;
    base::Result<void> on_record(const Record& record) override;
    bool may_share_kernel() const override { return may_be_fused(*this); }
    void enter(ProtocolId protocol);

    ProtocolId protocol_ = 0; // of its state
    SendStates states_;
};

} // namespace gpurun::transfer
