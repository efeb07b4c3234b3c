#include "node_switch.hpp"

#include "base/format.hpp"
#include "deadlock.hpp"
#include "platform/job_segment.hpp"

#include <algorithm>
#include <cstring>
#include <gpurun/version.h>

namespace gpurun::launcher {

using node_wire::Kind;

namespace {

constexpr size_t kMostStrangers = 64; // that have called and not shown the key
constexpr size_t kStrangersMessage = 256;

} // namespace

NodeSwitch::NodeSwitch(platform::EventLoop& loop, platform::UniqueFd listener, const platform::NodeKey& key)
    : loop_(loop), listener_{std::move(listener), 0}, key_(key),
      watch_(loop, listener_.fd.get(), [this] { on_call(); }) {
    watch_.wait_for(platform::Ready::kReadable);
}

bool NodeSwitch::has_nodes() const {
    return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.known; });
}

void NodeSwitch::on_call() {
    auto called = listener_.accept();
    if (!called || !*called)
        return;
    const auto is_stranger = [](const Node& node) { return !node.known; };
    if (std::count_if(nodes_.begin(), nodes_.end(), is_stranger) >= static_cast<ptrdiff_t>(kMostStrangers))
        nodes_.erase(std::find_if(nodes_.begin(), nodes_.end(), is_stranger)); // it has had the most time
    Node& node = nodes_.emplace_back();
    node.all = this;
    node.link = std::make_unique<NodeLink>(loop_, std::move(*called), node, kStrangersMessage);
}

bool NodeSwitch::hear(Node& node, uint32_t kind, std::string_view message) {
    if (!node.known)
        return hear_stranger(node, kind, message);
    switch (const auto what = static_cast<Kind>(kind); what) {
    case Kind::kGathered: return take_ranks(node, message);
    case Kind::kReady: return take_records(node, message);
    case Kind::kLeaving: return take_steps(node, message);
    case Kind::kFinalized:
    case Kind::kDead: return take_end(node, what, message);
    case Kind::kRefuse: refusal_ = message; [[fallthrough]];
    case Kind::kAborted: tell_others(&node, what, message); return true;
    default: return false;
    }
}

bool NodeSwitch::hear_stranger(Node& node, uint32_t kind, std::string_view message) {
    const auto hello = node_wire::message_of<node_wire::Hello>(message);
    if (static_cast<Kind>(kind) != Kind::kHello || !hello || hello->magic != node_wire::kMagic ||
        !same_key(hello->key, key_))
        return false;
    node.known = true;
    node.link->take_up_to(NodeLink::kLargest);
    tell(node, Kind::kHello, {});
    if (!node_wire::is_of_this_build(*hello))
        refuse_all(base::Status::kVersion,
                   base::format("ranks on another node are watched over by gpurun {}, and those of rank 0's node by "
                                "another build ({}): install the same on all nodes",
                                node_wire::version_of(*hello), GPURUN_VERSION));
    return true;
}

bool NodeSwitch::take_ranks(Node& node, std::string_view message) {
    const auto size = node_wire::take_front<uint32_t>(message);
    if (!size || *size == 0 || *size > platform::kMaxJobRanks || !node.ranks.empty() || message.empty() ||
        message.size() % sizeof(uint32_t) != 0)
        return false;
    if (of_rank_.empty())
        of_rank_.resize(*size);
    if (of_rank_.size() != *size)
        refuse_all(base::Status::kLauncher,
                   base::format("nodes disagree on how many ranks the job has: {} and {}", *size, of_rank_.size()));
    if (!refusal_.empty()) {
        tell(node, Kind::kRefuse, refusal_);
        return true;
    }
    while (const auto rank = node_wire::take_front<uint32_t>(message)) {
        if (*rank >= *size || of_rank_[*rank] != nullptr)
            return false;
        of_rank_[*rank] = &node;
        node.ranks.push_back(*rank);
    }
    if (std::all_of(of_rank_.begin(), of_rank_.end(), [](const Node* each) { return each != nullptr; }))
        introduce();
    return true;
}

// Every rank has come.
void NodeSwitch::introduce() {
    introduced_ = true;
    std::vector<uint32_t> numbers(of_rank_.size());
    uint32_t number = 0;
    std::string here; // by which others have reached this node
    for (const Node& node : nodes_) {
        for (const uint32_t rank : node.ranks)
            numbers[rank] = number;
        number += node.ranks.empty() ? 0 : 1;
        if (!node.ranks.empty() && &node != of_rank_[0])
            here = platform::own_address_of(node.link->fd());
    }
    const std::string text = node_wire::text_of_all(numbers);
    for (const Node& node : nodes_)
        if (!node.ranks.empty())
            tell(node, Kind::kNodes, text + (&node == of_rank_[0] ? here : platform::peer_address_of(node.link->fd())));
}

// Once all have come, each node gets all.
bool NodeSwitch::take_records(Node& node, std::string_view message) {
    if (!introduced_ || node.ranks.empty() || !node.records.empty() ||
        message.size() != node.ranks.size() * sizeof(platform::RankRecord))
        return false;
    node.records = message;
    std::string all(of_rank_.size() * sizeof(platform::RankRecord), '\0');
    for (const Node& each : nodes_) {
        if (each.records.empty() && !each.ranks.empty())
            return true;
        for (size_t i = 0; i < each.ranks.size(); ++i)
            std::memcpy(all.data() + each.ranks[i] * sizeof(platform::RankRecord),
                        each.records.data() + i * sizeof(platform::RankRecord), sizeof(platform::RankRecord));
    }
    tell_others(nullptr, Kind::kGo, all);
    return true;
}

bool NodeSwitch::take_steps(Node& node, std::string_view message) {
    const auto of = node_wire::message_of<node_wire::Leaving>(message);
    if (!of || !is_of(node, of->rank))
        return false;
    tell_others(&node, Kind::kLeaving, message);
    return true;
}

bool NodeSwitch::is_of(const Node& node, uint32_t rank) const {
    return rank < of_rank_.size() && of_rank_[rank] == &node;
}

bool NodeSwitch::take_end(Node& node, Kind kind, std::string_view message) {
    const auto of = node_wire::message_of<node_wire::OfRank>(message);
    if (!of || !is_of(node, of->rank))
        return false;
    node.ended.push_back(of->rank);
    tell_others(&node, kind, message);
    return true;
}

// With its supervisor, or the network, its ranks are lost.
void NodeSwitch::lose(Node& node) {
    std::vector<uint32_t> lost;
    for (const uint32_t rank : node.ranks)
        if (std::find(node.ended.begin(), node.ended.end(), rank) == node.ended.end())
            lost.push_back(rank);
    const bool had_ranks = !node.ranks.empty(); // else it was a call that has found another one answered first
    nodes_.remove_if([gone = &node](const Node& each) { return &each == gone; });
    for (const uint32_t rank : lost)
        tell_others(nullptr, Kind::kDead, node_wire::text_of(node_wire::OfRank{rank}));
    if (had_ranks && (!introduced_ || !lost.empty()))
        refuse_all(base::Status::kPeerLost, base::format("the node of {} {} was lost before every rank had joined",
                                                         lost.size() == 1 ? "rank" : "ranks", format_ranks(lost)));
}

void NodeSwitch::tell(const Node& node, Kind kind, std::string_view message) const {
    node.link->send(static_cast<uint32_t>(kind), message);
}

void NodeSwitch::tell_others(const Node* node, Kind kind, std::string_view message) const {
    for (const Node& each : nodes_)
        if (each.known && &each != node)
            tell(each, kind, message);
}

// Those that are not running yet.
void NodeSwitch::refuse_all(base::Status status, const std::string& why) {
    refusal_ = node_wire::text_of(node_wire::Number{static_cast<int32_t>(status)}, why);
    tell_others(nullptr, Kind::kRefuse, refusal_);
}

} // namespace gpurun::launcher
