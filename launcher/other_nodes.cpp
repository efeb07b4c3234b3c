#include "other_nodes.hpp"

#include "base/format.hpp"
#include "platform/job_segment.hpp"
#include "platform/tcp.hpp"

#include <algorithm>
#include <utility>

namespace gpurun::launcher {

using node_wire::Kind;

OtherNodes::OtherNodes(platform::EventLoop& loop, platform::NodeMeeting meeting, uint32_t size,
                       const std::vector<uint32_t>& ranks, Observer& observer)
    : loop_(loop), meeting_(std::move(meeting)), size_(size), observer_(observer) {
    tell(Kind::kGathered, node_wire::text_of(size, node_wire::text_of_all(ranks)));
}

void OtherNodes::call() {
    for (const std::string& address : meeting_.addresses)
        call_at(address);
    fail_if_none_is_left();
}

void OtherNodes::call_at(const std::string& address) {
    Call& call = calls_.emplace_back();
    call.all = this;
    auto calling = platform::call_tcp(address, meeting_.port);
    call.over = !calling;
    if (!calling)
        return;
    call.calling = std::move(*calling);
    call.answered = platform::Watch(loop_, call.calling.get(), [this, &call] { on_answer(call); });
    call.answered.wait_for(platform::Ready::kWritable);
}

void OtherNodes::on_answer(Call& call) {
    call.answered.stop();
    if (auto connected = platform::is_connected(call.calling.get()); !connected) {
        end(call, connected.error().detail);
        return;
    }
    call.link.emplace(loop_, std::move(call.calling), call, NodeLink::kLargest);
    node_wire::Hello hello;
    hello.key = meeting_.key;
    call.link->send(static_cast<uint32_t>(Kind::kHello), node_wire::text_of(hello));
}

void OtherNodes::end(Call& call, const std::string& why) {
    call.over = true;
    if (chosen_ == &call) {
        observer_.nodes_lost(why.empty() ? "the supervisor of rank 0's node has ended" : why);
        return;
    }
    fail_if_none_is_left();
}

void OtherNodes::fail_if_none_is_left() {
    if (chosen_ != nullptr || !std::all_of(calls_.begin(), calls_.end(), [](const Call& each) { return each.over; }))
        return;
    std::string tried;
    for (const std::string& address : meeting_.addresses)
        tried += (tried.empty() ? "" : ", ") + address;
    observer_.nodes_lost(
        base::format("the node of rank 0 cannot be reached from here, at {} port {}: has rank 0 ended, or "
                     "is there a firewall?",
                     tried, meeting_.port));
}

bool OtherNodes::hear(Call& call, uint32_t kind, std::string_view message) {
    if (chosen_ == nullptr && static_cast<Kind>(kind) == Kind::kHello) {
        chosen_ = &call;
        for (Call& each : calls_) // the link that is being read stays
            if (&each != &call) {
                each.answered.stop();
                each.calling.reset();
                each.link.reset();
            }
        for (const auto& [what, text] : std::exchange(untold_, {}))
            tell(what, text);
        return true;
    }
    if (chosen_ != &call)
        return false;
    std::string_view rest = message;
    const auto number = node_wire::take_front<node_wire::Number>(rest);
    const auto of = node_wire::message_of<node_wire::OfRank>(message);
    switch (static_cast<Kind>(kind)) {
    case Kind::kNodes: return take_nodes(message);
    case Kind::kGo: return take_records(message);
    case Kind::kLeaving: return take_steps(message);
    case Kind::kFinalized:
    case Kind::kDead:
        if (of && of->rank < size_)
            observer_.far_rank_ended(of->rank, static_cast<Kind>(kind) == Kind::kFinalized);
        return of && of->rank < size_;
    case Kind::kRefuse:
        if (number)
            observer_.refused_by_nodes(static_cast<base::Status>(number->value), std::string(rest));
        return number.has_value();
    case Kind::kAborted: observer_.aborted_by_nodes(); return true;
    default: return false;
    }
}

bool OtherNodes::take_nodes(std::string_view message) {
    std::vector<uint32_t> nodes;
    for (uint32_t rank = 0; rank < size_; ++rank) {
        const auto node = node_wire::take_front<uint32_t>(message);
        if (!node)
            return false;
        nodes.push_back(*node);
    }
    observer_.nodes_known(nodes, std::string(message));
    return true;
}

bool OtherNodes::take_records(std::string_view message) {
    if (!std::exchange(awaits_records_, false) || message.size() != size_ * sizeof(platform::RankRecord))
        return false;
    std::vector<std::string_view> records;
    for (uint32_t rank = 0; rank < size_; ++rank)
        records.push_back(message.substr(rank * sizeof(platform::RankRecord), sizeof(platform::RankRecord)));
    observer_.all_nodes_ready(records);
    return true;
}

void OtherNodes::tell_ready(std::string_view records) {
    awaits_records_ = true;
    tell(Kind::kReady, records);
}

bool OtherNodes::take_steps(std::string_view message) {
    const auto of = node_wire::message_of<node_wire::Leaving>(message);
    if (of && of->rank < size_)
        observer_.far_rank_leaves(of->rank, of->steps);
    return of && of->rank < size_;
}

void OtherNodes::tell_steps(uint32_t rank, uint32_t steps) {
    tell(Kind::kLeaving, node_wire::text_of(node_wire::Leaving{rank, steps}));
}

void OtherNodes::tell_end(uint32_t rank, bool finalized) {
    tell(finalized ? Kind::kFinalized : Kind::kDead, node_wire::text_of(node_wire::OfRank{rank}));
}

void OtherNodes::tell_refusal(base::Status status, const std::string& why) {
    tell(Kind::kRefuse, node_wire::text_of(node_wire::Number{static_cast<int32_t>(status)}, why));
}

void OtherNodes::tell(Kind kind, std::string_view message) {
    if (chosen_ == nullptr)
        untold_.emplace_back(kind, message);
    else if (chosen_->link)
        chosen_->link->send(static_cast<uint32_t>(kind), message);
}

} // namespace gpurun::launcher
