// A receive with the state of the protocol by which its message comes.
#pragma once

#include "transfer/protocols.hpp"

namespace gpurun::transfer {

class ReceiveOp final : public Receive {
  public:
    // `beside_send`: the caller sends on the same stream at the same time.
    ReceiveOp(Resources& resources, const Operand& operand, bool beside_send, Ending ending)
        : Receive(resources, operand, beside_send, ending) {}

    // It has this message. `payload` need only live during the call.
    void start(Peer& source, const Record& record, std::span<const std::byte> payload);

  private:
    ReceiveStates states_;
};

} // namespace gpurun::transfer
