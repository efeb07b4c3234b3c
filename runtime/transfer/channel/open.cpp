#include "transfer/channel/open.hpp"

#include "base/log.hpp"
#include "transfer/channel/fabric_channel.hpp"
#include "transfer/channel/shm_channel.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace gpurun::transfer {

using base::Result;
using base::WorldRank;

namespace {

struct ChannelInfo {
    const char* name;
    Result<void> (*publish)(ChannelSite& here); // null: nothing to do
    bool (*reaches)(const ChannelSite& here, WorldRank peer);
    Result<std::unique_ptr<PeerChannel>> (*open)(const ChannelSite& here, WorldRank peer);
};

Result<void> publish_by_shm(ChannelSite& here) {
    ShmChannel::publish(here.job.rank(here.self.value), here.facts);
    return {};
}

Result<std::unique_ptr<PeerChannel>> open_shm(const ChannelSite& here, WorldRank peer) {
    const bool events = ordering_counters(here.device, here.settings) == nullptr;
    return ShmChannel::open(here.device, here.job, here.self, peer,
                            {.events = events, .mps = here.settings.mps, .first_device_peer = here.first_device_peer});
}

bool on_this_node(const ChannelSite& here, WorldRank peer) {
    return here.job.rank(peer.value).node == here.job.rank(here.self.value).node;
}

constexpr uint32_t kManyOnNode = 64;

// All ranks find the same.
size_t frame_bytes(const std::map<uint32_t, uint32_t>& ranks_of_nodes) {
    const bool any_has_many = std::any_of(ranks_of_nodes.begin(), ranks_of_nodes.end(),
                                          [](const auto& each) { return each.second > kManyOnNode; });
    return any_has_many ? platform::FabricEndpoint::kSmallFrameBytes : platform::FabricEndpoint::kFrameBytes;
}

Result<void> publish_by_fabric(ChannelSite& here) {
    std::map<uint32_t, uint32_t> ranks_of_nodes;
    for (uint32_t rank = 0; rank < here.job.size(); ++rank)
        ++ranks_of_nodes[here.job.rank(rank).node];
    if (ranks_of_nodes.size() == 1)
        return {};
    GPURUN_ASSIGN(here.fabric, FabricPort::open(here.job, here.self,
                                                {.provider = here.settings.fabric,
                                                 .may_be_loopback = here.settings.emulated_nodes > 1,
                                                 .place = here.settings.fabric_interface,
                                                 .usual_address = here.settings.node_address,
                                                 .frame_bytes = frame_bytes(ranks_of_nodes)}));
    here.fabric->publish(here.job.rank(here.self.value));
    return {};
}

Result<std::unique_ptr<PeerChannel>> open_fabric(const ChannelSite& here, WorldRank peer) {
    GPURUN_ASSIGN(auto channel,
                  FabricChannel::open(here.fabric, here.device, here.job, here.self, peer, here.first_device_peer));
    return std::unique_ptr<PeerChannel>(std::move(channel));
}

bool by_fabric(const ChannelSite& here, WorldRank) { return here.fabric != nullptr; }

// The first that reaches a peer is taken.
constexpr std::array<ChannelInfo, 2> kTable = {{
    {"shm", publish_by_shm, on_this_node, open_shm},
    {"fabric", publish_by_fabric, by_fabric, open_fabric},
}};

} // namespace

Result<void> publish_rank(ChannelSite& here) {
    for (const ChannelInfo& each : kTable)
        if (each.publish != nullptr)
            GPURUN_TRY(each.publish(here));
    return {};
}

Result<std::vector<std::unique_ptr<PeerChannel>>> open_channels(const ChannelSite& here) {
    std::vector<std::unique_ptr<PeerChannel>> channels;
    for (uint32_t rank = 0; rank < here.job.size(); ++rank) {
        const WorldRank peer{rank};
        const auto* const found =
            std::find_if(kTable.begin(), kTable.end(), [&](const auto& each) { return each.reaches(here, peer); });
        if (found == kTable.end())
            return base::error(base::Status::kSystem, "rank {} cannot be reached from rank {}: no channel leads there",
                               rank, here.self.value);
        GPURUN_ASSIGN(auto channel, found->open(here, peer));
        channels.push_back(std::move(channel));
        base::log(base::LogLevel::kDebug, "rank {} is reached by {}", rank, found->name);
    }
    if (here.fabric)
        GPURUN_TRY(here.fabric->start());
    return channels;
}

} // namespace gpurun::transfer
