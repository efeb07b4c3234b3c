// How a FabricPort learns that a peer is lost. Who is dead, the launcher says. Who lives and cannot be reached, the
// launcher does not know: the hosts may reach each other by one network, and messages go by another.
//
// While the rank waits, a small frame goes each second to the peers that it has met, so that their machines have
// something to acknowledge. One that has acknowledged nothing for kSilenceNs is unreachable. The peer's process is
// not asked, since it may be stopped.
#include "base/log.hpp"
#include "platform/clock.hpp"
#include "platform/fabric/tcp_connections.hpp"
#include "platform/host_name.hpp"
#include "transfer/channel/fabric_peer.hpp"
#include "transfer/channel/fabric_port.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace gpurun::transfer {

using platform::RankState;

namespace {

constexpr int64_t kSilenceNs = 4'000'000'000;
constexpr int64_t kNsPerMs = 1'000'000;

} // namespace

void FabricPort::on_failed(uint64_t peer, const std::string& why) {
    for (const auto& [rank, each] : channels_)
        if (each->number_ == peer && !each->heard_goodbye() && !each->is_lost() && each->silent_since_ns_ == 0) {
            each->silent_since_ns_ = platform::now_ns();
            each->silent_why_ = why;
            if (!std::exchange(each->is_listed_, true))
                busy_.push_back(each);
            wake_progress(Rest::kNap);
        }
}

void FabricPort::lose_who_is_silent() {
    for (const auto& [rank, each] : channels_) {
        if (each->silent_since_ns_ == 0 || platform::now_ns() - each->silent_since_ns_ < kSilenceNs)
            continue;
        each->silent_since_ns_ = 0;
        if (each->is_lost() || each->heard_goodbye())
            continue;
        lose_unreachable(*each, each->silent_why_);
    }
}

// What the dead have sent before is taken first.
void FabricPort::lose_the_dead() {
    const std::lock_guard lock(mutex_);
    for (const auto& [rank, each] : channels_) {
        const auto state = static_cast<RankState>(job_.rank(rank).state.load(std::memory_order_acquire));
        if (state != RankState::kDead || each->is_lost())
            continue;
        for (int i = 0; i < kMostLooks && look(); ++i) {
        }
        each->give_up();
    }
    changed_.notify_all();
}

bool FabricPort::waits() const {
    constexpr uint64_t kWaits = platform::presence::kSleepers | platform::presence::kAttendants;
    const uint64_t presence = job_.rank(self_.value).presence.load(std::memory_order_relaxed);
    return (presence & (kWaits | platform::presence::kBackground)) != 0;
}

// Once in kBeatNs. If it is late, this process has not run, and knows nothing of its peers.
void FabricPort::beat() {
    const int64_t now_ns = platform::now_ns();
    if (!beats_ || now_ns - beat_at_ns_ < kBeatNs)
        return;
    const bool is_late = now_ns - std::exchange(beat_at_ns_, now_ns) >= 2 * kBeatNs;
    std::vector<FabricPeer*> doubtful;
    const bool waits = this->waits();
    for (const auto& [rank, each] : channels_) {
        if (!each->has_met() || each->is_lost() || each->heard_goodbye() || each->silent_since_ns_ != 0)
            continue;
        if (waits && !each->said_goodbye_ && !each->is_unsent() && now_ns - each->sent_at_ns_ >= kBeatNs) {
            each->say_still_here();
            send_frames(*each);
            list(*each);
        }
        if (is_late && each->unheard_since_ns_ != 0)
            each->unheard_since_ns_ = now_ns;
        if (each->unheard_since_ns_ != 0 && now_ns - each->unheard_since_ns_ >= kSilenceNs)
            doubtful.push_back(each);
    }
    if (!doubtful.empty())
        lose_the_unreachable(doubtful, now_ns);
}

void FabricPort::lose_the_unreachable(const std::vector<FabricPeer*>& doubtful, int64_t now_ns) {
    const std::vector<platform::TcpConnection> connections = platform::tcp_connections();
    for (FabricPeer* const each : doubtful) {
        if (answers(*each, connections, (now_ns - each->unheard_since_ns_) / kNsPerMs))
            each->unheard_since_ns_ = each->is_unsent() ? now_ns : 0;
        else
            lose_unreachable(*each, "nothing has come through for 4 seconds");
    }
}

// Whether the peer's machine has acknowledged anything in that time, or there was nothing to acknowledge. Best known by
// the connection that was made to the peer; if the peer has made it, its port is not known.
bool FabricPort::answers(const FabricPeer& channel, const std::vector<platform::TcpConnection>& connections,
                         int64_t quiet_ms) const {
    if (!channel.address_ || !is_over_tcp())
        return channel.got_ != 0 || !channel.is_unsent(); // nobody else knows
    bool is_known = false, answers_here = false, answers_there = false;
    for (const platform::TcpConnection& each : connections) {
        if (!each.peer.is_same_host(*channel.address_))
            continue;
        const bool well = !each.is_awaiting || each.acknowledged_ms < quiet_ms;
        answers_there = answers_there || well;
        if (each.peer.port != channel.address_->port)
            continue;
        is_known = true;
        answers_here = answers_here || well;
    }
    return is_known ? answers_here : channel.got_ != 0 && answers_there;
}

bool FabricPort::is_over_tcp() const {
    const std::string first = provider().substr(0, provider().find(';'));
    return first == "tcp" || first == "net" || first == "sockets";
}

void FabricPort::lose_unreachable(FabricPeer& channel, const std::string& why) {
    const std::string where = channel.address_ ? " at " + channel.address_->text() : "";
    std::fprintf(
        stderr,
        "gpurun: rank %u on %s cannot reach rank %u%s over %s: %s; let the hosts reach each other at all ports "
        "there (a firewall?), or name the network by which they do with GPURUN_FABRIC_INTERFACE "
        "(gpurun_fabric(7))\n",
        self_.value, platform::host_name().c_str(), channel.peer().value, where.c_str(), provider().c_str(),
        why.c_str());
    channel.give_up();
}

} // namespace gpurun::transfer
