#include "transfer/channel/open.hpp"

#include "base/log.hpp"
#include "transfer/channel/shm_channel.hpp"

#include <algorithm>
#include <array>

namespace gpurun::transfer {

using base::Result;
using base::WorldRank;

namespace {

struct ChannelInfo {
    const char* name;
    Result<void> (*publish)(const ChannelSite& here); // null: nothing to do
    bool (*reaches)(const ChannelSite& here, WorldRank peer);
    Result<std::unique_ptr<PeerChannel>> (*open)(const ChannelSite& here, WorldRank peer);
};

Result<void> publish_by_shm(const ChannelSite& here) {
    ShmChannel::publish(here.job.rank(here.self.value), here.facts);
    return {};
}

Result<std::unique_ptr<PeerChannel>> open_shm(const ChannelSite& here, WorldRank peer) {
    const bool events = ordering_counters(here.device, here.settings) == nullptr;
    return ShmChannel::open(here.device, here.job, here.self, peer, {.events = events, .mps = here.settings.mps});
}

bool on_this_machine(const ChannelSite&, WorldRank) { return true; } // as all ranks of a job segment are

// The first that reaches a peer is taken.
constexpr std::array<ChannelInfo, 1> kTable = {{
    {"shm", publish_by_shm, on_this_machine, open_shm},
}};

} // namespace

Result<void> publish_rank(const ChannelSite& here) {
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
    return channels;
}

} // namespace gpurun::transfer
