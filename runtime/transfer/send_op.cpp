#include "transfer/send_op.hpp"

#include "transfer/emplace_state.hpp"

namespace gpurun::transfer {

using base::Result;

void SendOp::enter(ProtocolId protocol) {
    protocol_ = protocol;
    set_state(emplace_state<SendState>(states_, protocol));
}

Result<Posted> SendOp::post() {
    // One that has found no room in the ring stays with its protocol.
    const size_t first = state() == nullptr ? 0 : protocol_;
    for (size_t protocol = first; protocol < protocols().size(); ++protocol) {
        if (!protocols()[protocol].begins)
            continue;
        if (state() == nullptr || protocol != protocol_)
            enter(static_cast<ProtocolId>(protocol));
        auto posted = state()->post(*this);
        if (!posted || *posted != Posted::kNot)
            return posted;
    }
    CHECK(!"the last protocol that begins messages takes all");
    return Posted::kNot;
}

Result<void> SendOp::on_record(const Record& record) {
    if (protocol_ != record.protocol)
        enter(record.protocol);
    return state()->on_record(*this, record);
}

} // namespace gpurun::transfer
