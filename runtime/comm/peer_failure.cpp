#include "comm/peer_failure.hpp"

#include "base/format.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;
using base::Status;
using transfer::Direction;
using transfer::Edge;
using transfer::Peer;

bool PeerFailure::is_hopeless(const Pattern& pattern) const {
    const auto is_silent = [](const Peer& each) { return each.lost() || each.has_left_off(); };
    return pattern.any_source ? all_others(*pattern.group, is_silent) : is_silent(core_.peer(pattern.source));
}

bool PeerFailure::is_lost(const Pattern& pattern) const {
    const auto is_dead = [](const Peer& each) { return each.lost(); };
    return pattern.any_source ? all_others(*pattern.group, is_dead) : is_dead(core_.peer(pattern.source));
}

base::Error PeerFailure::why_hopeless(const Pattern& pattern) const {
    if (!pattern.any_source)
        return core_.peer(pattern.source).lost() ? lost(core_.peer(pattern.source)) : left_off(pattern.source);
    if (all_others(*pattern.group, [](const Peer& each) { return each.lost(); }))
        return base::error(Status::kPeerLost,
                           "every other rank of the communicator has died, or cannot be reached any more");
    return base::error(Status::kFinalized, "every other rank of the communicator has called gpurun_finalize() or died: "
                                           "none can send this message any more");
}

base::Error PeerFailure::member_died(const Group& group) const {
    for (const WorldRank each : group.members())
        if (core_.peer(each).lost())
            return lost(core_.peer(each));
    GPURUN_ASSERT(!"some member has died");
    return {};
}

bool PeerFailure::any_lost(const Group& group) const {
    return std::any_of(group.members().begin(), group.members().end(), [&](WorldRank each) {
        assume_engine_lock();
        return core_.peer(each).lost();
    });
}

template <typename Condition>
bool PeerFailure::all_others(const Group& group, const Condition& condition) const {
    const auto& members = group.members();
    return members.size() > 1 && std::all_of(members.begin(), members.end(), [&](WorldRank each) {
               assume_engine_lock();
               return core_.peer(each).to_self() || condition(core_.peer(each));
           });
}

bool PeerFailure::is_losing() const {
    return core_.any_peer([](const Peer& each) { return !each.lost() && each.channel().is_gone(); });
}

void PeerFailure::lose(Peer& peer) {
    peer.set_lost();
    remember(peer.awaiting_backward, Edge::kBackward, Direction::kOut, peer);
    remember(peer.awaiting_forward, Edge::kForward, Direction::kIn, peer);
    if (!peer.channel().is_unwatched() || peer.channel().has_ended()) // else it may live, and so do its streams
        core_.device().release_peer(peer.channel().device_peer());
    fail_operations(peer);
    orphaned_.lose(peer.rank());
    core_.communicators().ids().lose(peer.rank());
    lost_(peer.rank());
}

void PeerFailure::remember(const transfer::DependentStreams& streams, Edge edge, Direction direction, Peer& peer) {
    transfer::Fence* const fence = peer.channel().open_fence(direction);
    if (fence == nullptr)
        return; // no stream waits for the peer
    streams.for_each([&](const transfer::DependentStreams::Entry& each) {
        auto cut_short = fence->cut_short(edge, each.slot);
        if (cut_short && !*cut_short)
            return;
        cut_short_ = true;
        stuck_ = stuck_ || !core_.resources().releases_streams();
        if (each.stream && !is_lost(*each.stream))
            lost_streams_.push_back(*each.stream);
    });
}

void PeerFailure::fail_operations(Peer& peer) {
    const base::Error error = lost(peer);
    peer.unposted.for_each([&](transfer::Send& each) { each.fail(error); });
    peer.sends.for_each([&](transfer::Send& each) {
        assume_engine_lock();
        if (!orphaned_.keep(each))
            each.fail_unless_complete(error);
    });
    peer.receives.for_each([&](transfer::Receive& each) { each.fail_unless_complete(error); });
    peer.for_each_part([&](transfer::ProtocolPart& each) { each.lose(error); });
    core_.resources().moving.for_each([&](transfer::Operation& each) {
        if (each.peer() == &peer)
            each.fail_unless_complete(error);
    });
    fail_hopeless();
}

void PeerFailure::leave_off(Peer& peer) {
    peer.set_left_off();
    fail_hopeless();
}

void PeerFailure::fail_hopeless() {
    core_.matcher().for_each_posted([&](Expected& each) {
        assume_engine_lock();
        if (!is_hopeless(each.pattern))
            return;
        core_.matcher().withdraw(each);
        static_cast<PostedReceive&>(each).fail(why_hopeless(each.pattern));
    });
}

bool PeerFailure::is_lost(device::Stream stream) const {
    return std::find(lost_streams_.begin(), lost_streams_.end(), stream) != lost_streams_.end();
}

Result<void> PeerFailure::check(device::Stream stream) {
    const auto lost = std::find(lost_streams_.begin(), lost_streams_.end(), stream);
    if (lost == lost_streams_.end())
        return check_graphs();
    if (stuck_) // for ever: said each time
        return base::error(Status::kPeerLost, "a rank died before its message in this stream was complete, and the "
                                              "stream stays blocked: this device's event fence cannot be released. "
                                              "Use another stream, or GPURUN_FENCE=counter");
    lost_streams_.erase(lost);
    return base::error(Status::kPeerLost, "a rank died before its message in this stream was complete; the "
                                          "contents of the receive buffer are undefined");
}

Result<void> PeerFailure::check_graphs() {
    for (const auto& each : core_.peers()) {
        if (!each->lost() || !core_.resources().pools.graph_notes.take_cut(each->rank().value))
            continue;
        cut_short_ = true;
        return base::error(Status::kPeerLost,
                           "rank {} died before a graph's message with it was complete; the contents of the receive "
                           "buffer are undefined",
                           each->rank().value);
    }
    return {};
}

} // namespace gpurun::comm
