// A channel to a peer whose records do what a test says: the test takes what was posted, hands in what the peer would
// have posted, says when there is no room, and when the peer is gone. What streams of both ranks use, fences, buffers
// and totals, is the job segment's.
#pragma once

#include "base/check.hpp"
#include "transfer/channel/peer_channel.hpp"

#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace gpurun::test {

class InterceptedChannel final : public transfer::PeerChannel {
  public:
    struct Posted {
        transfer::Record record;
        std::vector<std::byte> payload;
        transfer::Notify notify = transfer::Notify::kIfSleeping;
    };

    explicit InterceptedChannel(std::unique_ptr<transfer::PeerChannel> shared)
        : PeerChannel(shared->peer(), shared->to_self()), shared_(std::move(shared)) {}

    // ------------------------------------------------------------------------------------------------ for the test
    std::deque<Posted> posted;                      // by this rank; the test takes them
    size_t posts = 0;                               // how many that were
    size_t room = SIZE_MAX;                         // for so many more
    size_t refused = 0;                             // how often there was none
    std::deque<Posted> arrived;                     // from the peer
    std::vector<transfer::Notify> notified;         // by this rank, without a record
    std::optional<transfer::Liveness> liveness_now; // else as the job segment says
    bool has_ended_now = true;                      // once it is dead
    std::optional<transfer::RankFacts> facts_now;   // else as the job segment says

    // The oldest record that this rank has posted. REQUIRES that there is one.
    Posted take() {
        GPURUN_ASSERT(!posted.empty());
        Posted first = std::move(posted.front());
        posted.pop_front();
        return first;
    }

    // ---------------------------------------------------------------------------------------------- PeerChannel
    transfer::Liveness liveness() const override { return liveness_now.value_or(shared_->liveness()); }
    bool has_ended() const override { return has_ended_now; }
    const transfer::RankFacts& facts() const override { return facts_now ? *facts_now : shared_->facts(); }
    bool has_captured() const override { return shared_->has_captured(); }
    uint32_t steps_of_leaving() const override { return shared_->steps_of_leaving(); }
    void tell_steps_of_leaving(uint32_t steps) override { shared_->tell_steps_of_leaving(steps); }

    bool post(const transfer::Record& record, std::span<const std::byte> payload, transfer::Notify notify) override {
        if (room == 0) {
            ++refused;
            return false;
        }
        --room;
        ++posts;
        Posted& made = posted.emplace_back();
        transfer::copy_record(made.record, record);
        made.record.payload_bytes = static_cast<uint16_t>(payload.size());
        made.payload.assign(payload.begin(), payload.end());
        made.notify = notify;
        return true;
    }
    bool post_few(transfer::ProtocolId protocol, const transfer::Envelope& envelope, const std::byte* payload,
                  uint64_t signature) override {
        transfer::Record record(transfer::RecordKind::kMessage, protocol);
        record.envelope = envelope;
        if (signature != 0)
            record.sign(signature);
        return post(record, {payload, envelope.bytes}, transfer::Notify::kIfSleeping);
    }
    void notify(transfer::Notify notify) override { notified.push_back(notify); }
    bool has_records() const override { return !arrived.empty(); }
    const transfer::Record* front(std::span<const std::byte>& ret_payload) override {
        if (arrived.empty())
            return nullptr;
        ret_payload = arrived.front().payload;
        return &arrived.front().record;
    }
    void pop() override { arrived.pop_front(); }

    void set_total(transfer::Direction direction, transfer::Total total, uint64_t value) override {
        shared_->set_total(direction, total, value);
    }
    uint64_t total(transfer::Direction direction, transfer::Total total) const override {
        return shared_->total(direction, total);
    }
    bool shares_memory() const override { return shared_->shares_memory(); }
    base::Result<transfer::Fence*> fence(transfer::Direction direction) override { return shared_->fence(direction); }
    transfer::Fence* open_fence(transfer::Direction direction) const override { return shared_->open_fence(direction); }
    base::Result<std::byte*> eager_buffer(transfer::Direction direction, uint32_t index, bool for_streams) override {
        return shared_->eager_buffer(direction, index, for_streams);
    }
    base::Result<std::byte*> relay_buffer(transfer::Direction direction, uint32_t window, uint32_t index,
                                          bool for_streams) override {
        return shared_->relay_buffer(direction, window, index, for_streams);
    }
    transfer::PeerMemory* memory() override { return shared_->memory(); }

  private:
    std::unique_ptr<transfer::PeerChannel> shared_;
};

} // namespace gpurun::test
