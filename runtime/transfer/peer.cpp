#include "transfer/peer.hpp"

#include "base/log.hpp"

#include <algorithm>

namespace gpurun::transfer {

using base::Result;

namespace {

Result<void> keep_first(Result<void> first, Result<void> next) { return first ? std::move(next) : std::move(first); }

} // namespace

Peer::Peer(Resources& resources, std::unique_ptr<PeerChannel> channel, std::span<const PartMaker> makers)
    : channel_(std::move(channel)), memory_(resources, *channel_) {
    for (const PartMaker make : makers)
        parts_.push_back(make == nullptr ? nullptr : make(resources, *this));
}

Peer::~Peer() {
    if (auto closed = close(); !closed)
        base::log(base::LogLevel::kWarn, "closing what is shared with rank {}: {}", rank().value,
                  closed.error().detail);
}

void Peer::tell(const Record& record, Notify notify, std::span<const std::byte> payload) {
    if (!backlog_.empty() || !channel_->post(record, payload, notify))
        backlog_.push_back({record, {payload.begin(), payload.end()}});
}

bool Peer::flush() {
    while (!backlog_.empty() && channel_->post(backlog_.front().record, backlog_.front().payload, Notify::kAlways))
        backlog_.pop_front();
    return backlog_.empty();
}

bool Peer::progress() {
    (void)flush(); // what does not fit now is tried again
    bool moved = false;
    for (size_t protocol = 0; attended_ >> protocol != 0; ++protocol) {
        if ((attended_ >> protocol & 1) == 0)
            continue;
        moved |= parts_[protocol]->progress();
        if (parts_[protocol]->quiet())
            attended_ &= ~(1u << protocol);
    }
    return moved;
}

bool Peer::needs_hand() const {
    return !unposted.empty() ||
           std::any_of(parts_.begin(), parts_.end(), [](const auto& each) { return each && each->needs_hand(); });
}

Result<void> Peer::let_go() {
    Result<void> result = memory_.close();
    for_each_part([&](ProtocolPart& each) { result = keep_first(std::move(result), each.let_go()); });
    return result;
}

Result<void> Peer::close() {
    Result<void> result = let_go();
    for_each_part([&](ProtocolPart& each) { result = keep_first(std::move(result), each.close()); });
    return result;
}

} // namespace gpurun::transfer
