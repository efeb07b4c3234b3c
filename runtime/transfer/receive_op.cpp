#include "transfer/receive_op.hpp"

#include "transfer/emplace_state.hpp"

namespace gpurun::transfer {

void ReceiveOp::start(Peer& source, const Record& record, std::span<const std::byte> payload) {
    begin(source, record);
    Arrival arrival{record, payload, {}};
    ProtocolId protocol = record.protocol;
    if (protocol == RendezvousPart::kProtocol) {
        arrival.route = choose_route(*this, record);
        protocol = arrival.route.protocol;
    }
    ReceiveState* const state = emplace_state<ReceiveState>(states_, protocol);
    set_state(*state);
    started_by(state->start(*this, arrival));
}

} // namespace gpurun::transfer
