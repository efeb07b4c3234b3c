#include "transfer/protocols.hpp"

#include <array>
#include <cstring>

namespace gpurun::transfer {

namespace {

template <typename Part>
std::unique_ptr<ProtocolPart> make(Resources& resources, Peer& peer) {
    if constexpr (std::is_constructible_v<Part, Resources&, Peer&>)
        return std::make_unique<Part>(resources, peer);
    else if constexpr (std::is_constructible_v<Part, Peer&>)
        return std::make_unique<Part>(peer);
    else
        return std::make_unique<Part>();
}

using Find = decltype(ProtocolInfo::find);

constexpr Find kFindSingleCopy = [](Receive& receive, Rendezvous& rendezvous) {
    return find_single_copy(receive, rendezvous.ready, rendezvous.message_bytes, rendezvous.single_copy_refused);
};
constexpr Find kFindPull = [](Receive& receive, Rendezvous& rendezvous) {
    return find_pull(receive, rendezvous.ready, rendezvous.message_bytes, rendezvous.not_pulled);
};
constexpr Find kFindRelay = [](Receive& receive, Rendezvous& rendezvous) {
    return std::optional(find_relay(receive, rendezvous.ready, rendezvous.not_pulled, rendezvous.single_copy_refused));
};

constexpr std::array<ProtocolInfo, 8> kTable = {{
    {"graph", kGraphRoutes, true, nullptr, make<GraphPart>},
    {"inline", kInlineRoutes, true, nullptr, make<InlinePart>},
    {"mailbox", kMailboxRoutes, true, nullptr, make<MailboxPart>},
    {"eager", kEagerRoutes, true, nullptr, make<EagerPart>},
    {"rendezvous", {}, true, nullptr, make<RendezvousPart>},
    {"single copy", kSingleCopyRoutes, false, kFindSingleCopy, make<SingleCopyPart>},
    {"pull", kPullRoutes, false, kFindPull, make<PullPart>},
    {"relay", kRelayRoutes, false, kFindRelay, make<RelayPart>},
}};
static_assert(GraphPart::kProtocol == 0 && InlinePart::kProtocol == 1 && MailboxPart::kProtocol == 2 &&
              EagerPart::kProtocol == 3 && RendezvousPart::kProtocol == 4 && SingleCopyPart::kProtocol == 5 &&
              PullPart::kProtocol == 6 && RelayPart::kProtocol == 7);

constexpr auto kPartMakers = [] {
    std::array<Peer::PartMaker, kTable.size()> makers{};
    for (size_t i = 0; i < kTable.size(); ++i)
        makers[i] = kTable[i].make_part;
    return makers;
}();

} // namespace

std::span<const ProtocolInfo> protocols() { return kTable; }

std::span<const Peer::PartMaker> part_makers() { return kPartMakers; }

const RouteText& text_of(Route route) { return kTable[route.protocol].routes[route.index]; }

Route choose_route(Receive& receive, const Record& record) {
    const auto ready = record.as<ReadyToSend>();
    Rendezvous rendezvous{ready, record.envelope.bytes};
    for (const ProtocolInfo& each : kTable) {
        if (each.find == nullptr)
            continue;
        if (const auto route = each.find(receive, rendezvous))
            return *route;
    }
    CHECK(!"the last protocol takes all messages");
    return {};
}

void name_routes(platform::TraceHeader& header) {
    static_assert(kTable.size() * Route::kMostOfProtocol <= std::tuple_size_v<decltype(header.paths)>);
    const auto name = [](auto& text, const char* from) { std::strncpy(text.data(), from, text.size() - 1); };
    for (size_t protocol = 0; protocol < kTable.size(); ++protocol)
        for (size_t index = 0; index < kTable[protocol].routes.size(); ++index) {
            const Route route{static_cast<ProtocolId>(protocol), static_cast<uint8_t>(index)};
            name(header.paths[route.number()], kTable[protocol].routes[index].path);
            name(header.reasons[route.number()], kTable[protocol].routes[index].reason);
        }
}

} // namespace gpurun::transfer
