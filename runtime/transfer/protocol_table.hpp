// What Send and Receive see of the protocols: the rows of a table that they are given (Resources::protocols). The table
// itself is above them, since each protocol's code uses Send and Receive (protocols.hpp).
#pragma once

#include "transfer/state.hpp"

namespace gpurun::transfer {

struct ProtocolInfo {
    const char* name;
    std::span<const RouteText> routes;
    bool begins; // messages, if its state's post() takes them
    // Of a protocol whose message is only announced: finds what moves the bytes. Null: it moves them itself.
    Route (*choose_route)(Receive& receive, const Record& record);
    // Null: no send, or no receive, goes by it.
    void (*make_send)(StateHolder<SendState>& holder);
    void (*make_receive)(StateHolder<ReceiveState>& holder);
    Peer::PartMaker make_part; // null: it keeps nothing
};

// The protocol that begins loans. It stands behind one that takes all other messages.
constexpr ProtocolId kLoanProtocol = 9;

struct ProtocolTable {
    std::span<const ProtocolInfo> rows; // by ProtocolId

    const ProtocolInfo& operator[](ProtocolId protocol) const { return rows[protocol]; }
    const RouteText& text_of(Route route) const { return rows[route.protocol].routes[route.index]; }
    // Calls with each route, its protocol and its text.
    template <typename Call>
    void for_each_route(const Call& call) const {
        for (size_t protocol = 0; protocol < rows.size(); ++protocol)
            for (size_t index = 0; index < rows[protocol].routes.size(); ++index)
                call(Route{static_cast<ProtocolId>(protocol), static_cast<uint8_t>(index)}, rows[protocol],
                     rows[protocol].routes[index]);
    }
};

} // namespace gpurun::transfer
