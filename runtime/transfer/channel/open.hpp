// Which channels there are, and which of them reaches which peer.
//
// A new channel is a file pair in this folder, and a row of the table in open.cpp: what it tells the peers before this
// rank is ready, which peers it reaches, and how it is opened.
#pragma once

#include "base/settings.hpp"
#include "transfer/channel/peer_channel.hpp"

#include <memory>
#include <vector>

namespace gpurun::transfer {

class FabricPort;

// What a channel is made of. All of it but the facts outlives the channel.
struct ChannelSite {
    device::Device& device;
    const platform::JobSegment& job;
    const base::Settings& settings;
    base::WorldRank self;
    const RankFacts& facts;                       // of this rank, for its peers
    int first_device_peer = 0;                    // what the device calls rank 0 of the job; the others follow
    std::shared_ptr<FabricPort> fabric = nullptr; // from publish_rank() on, if some rank is on another node
};

// What each channel does before this rank is ready, so that the others can reach it.
base::Result<void> publish_rank(ChannelSite& here);

// To each rank of the job, this one included, by the first channel of the table that reaches it; by rank. REQUIRES: all
// ranks are ready.
base::Result<std::vector<std::unique_ptr<PeerChannel>>> open_channels(const ChannelSite& here);

} // namespace gpurun::transfer
