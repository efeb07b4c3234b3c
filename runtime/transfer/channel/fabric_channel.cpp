#include "transfer/channel/fabric_channel.hpp"

#include "base/format.hpp"
#include "transfer/channel/rank_facts.hpp"

namespace gpurun::transfer {

using base::Result;
using platform::RankState;

Result<std::unique_ptr<FabricChannel>> FabricChannel::open(std::shared_ptr<FabricPort> port, device::Device& device,
                                                           const platform::JobSegment& job, base::WorldRank self,
                                                           base::WorldRank peer, int first_device_peer) {
    if (device.counters() == nullptr)
        return base::error(base::Status::kUnsupported,
                           "rank {} is on another node, and streams of several nodes are ordered by counters, which {} "
                           "lacks",
                           peer.value, device.info().name);
    GPURUN_ASSIGN(Pages pages, Pages::create(device));
    RankFacts facts = common_facts(job.rank(peer.value));
    const Site site{device, job, self, peer, port->mutex(), first_device_peer};
    FabricPort& through = *port;
    std::unique_ptr<FabricChannel> channel(new FabricChannel(std::move(port), site, std::move(pages), facts));
    const std::lock_guard lock(through.mutex());
    GPURUN_TRY(through.add(*channel));
    return channel;
}

FabricChannel::~FabricChannel() {
    std::unique_lock lock(mutex());
    port_->part_from(*this, lock);
    port_->remove(*this);
}

Liveness FabricChannel::liveness() const {
    const Liveness known = CarriedChannel::liveness();
    return known == Liveness::kAlive && is_said_to_be_dead() ? Liveness::kDying : known;
}

bool FabricChannel::is_said_to_be_dead() const {
    const auto state = static_cast<RankState>(site().job.rank(peer().value).state.load(std::memory_order_acquire));
    return state == RankState::kDying || state == RankState::kDead;
}

bool FabricChannel::is_held_back() const {
    const std::lock_guard lock(mutex());
    return has_frame_left();
}

} // namespace gpurun::transfer
