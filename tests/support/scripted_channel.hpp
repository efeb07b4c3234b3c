// A channel whose peer is the test: it keeps what this rank publishes, and publishes what the test says.
//
// For tests of one rank alone. Used under the engine lock, or while nobody is in a call.
#pragma once

#include "platform/wake.hpp"
#include "support/pinned_pages.hpp"
#include "transfer/channel/peer_channel.hpp"

#include <array>
#include <deque>
#include <vector>

namespace gpurun::test {

class ScriptedChannel final : public transfer::PeerChannel {
  public:
    using Direction = transfer::Direction;
    using Record = transfer::Record;

    ScriptedChannel(device::Device& device, base::WorldRank peer) : PeerChannel(peer, false), device_(device) {}

    // ---- what the test reads and sets
    struct Posted {
        Record record;
        std::vector<std::byte> payload;
        transfer::Notify notify;
    };
    std::vector<Posted> posted;
    size_t room = SIZE_MAX; // records that fit yet
    transfer::Liveness lives = transfer::Liveness::kAlive;
    bool ended = true; // once it is dead
    transfer::RankFacts peers_facts;
    uint32_t steps = 0;
    bool captured = false;

    // The peer publishes.
    void arrive(const Record& record, std::span<const std::byte> payload = {}) {
        Arrived& arrived = inbox_.emplace_back();
        transfer::copy_record(arrived.record, record);
        arrived.record.payload_bytes = static_cast<uint16_t>(payload.size());
        arrived.payload.assign(payload.begin(), payload.end());
    }
    // A message of the peer's that carries its bytes.
    void send_inline(uint32_t context, int32_t tag, std::span<const std::byte> payload) {
        Record record(transfer::RecordKind::kMessage, transfer::ProtocolId{1});
        record.envelope = {context, tag, payload.size()};
        arrive(record, payload);
    }
    // The peer's part of a slot, and what its death leaves of it.
    transfer::Fence& edges(Direction direction) { return *must(fence(direction)); }
    void die() {
        for (const Direction direction : {Direction::kOut, Direction::kIn}) {
            (void)must(fence(direction));
            for (size_t i = 0; i < platform::kFenceSlots; ++i) {
                platform::FenceSlot& slot = half(direction).slots->as<platform::FenceSlot>()[i];
                auto& edge = direction == Direction::kIn ? slot.forward : slot.backward;
                platform::store_and_wake(edge, edge.load() | platform::kPoison);
            }
        }
        lives = transfer::Liveness::kDead;
    }

    // ---- the channel
    transfer::Liveness liveness() const override { return lives; }
    bool has_ended() const override { return ended; }
    const transfer::RankFacts& facts() const override { return peers_facts; }
    bool has_captured() const override { return captured; }
    uint32_t steps_of_leaving() const override { return steps; }
    void tell_steps_of_leaving(uint32_t) override {}

    bool post(const Record& record, std::span<const std::byte> payload, transfer::Notify how) override {
        if (room == 0)
            return false;
        --room;
        Posted& kept = posted.emplace_back();
        transfer::copy_record(kept.record, record);
        kept.payload.assign(payload.begin(), payload.end());
        kept.notify = how;
        return true;
    }
    bool post_few(transfer::ProtocolId protocol, const transfer::Envelope& envelope, const std::byte* payload,
                  uint64_t signature) override {
        Record record(transfer::RecordKind::kMessage, protocol);
        record.envelope = envelope;
        if (signature != 0)
            record.sign(signature);
        return post(record, {payload, envelope.bytes}, transfer::Notify::kIfSleeping);
    }
    void notify(transfer::Notify) override {}
    bool has_records() const override { return !inbox_.empty(); }
    const Record* front(std::span<const std::byte>& ret_payload) override {
        if (inbox_.empty())
            return nullptr;
        ret_payload = inbox_.front().payload;
        return &inbox_.front().record;
    }
    void pop() override { inbox_.pop_front(); }

    void set_total(Direction direction, transfer::Total total, uint64_t value) override {
        half(direction).totals[total] = value;
    }
    uint64_t total(Direction direction, transfer::Total total) const override { return half(direction).totals[total]; }

    bool shares_memory() const override { return true; }
    base::Result<transfer::Fence*> fence(Direction direction) override {
        Half& of = half(direction);
        if (!of.fence) {
            of.slots.emplace(device_, platform::kFenceSlots * sizeof(platform::FenceSlot));
            GPURUN_TRY(of.slots->pin());
            of.fence = transfer::make_counter_fence(*device_.counters(), of.slots->as<platform::FenceSlot>());
        }
        return of.fence.get();
    }
    transfer::Fence* open_fence(Direction direction) const override { return half(direction).fence.get(); }
    base::Result<std::byte*> eager_buffer(Direction direction, uint32_t index, bool) override {
        Half& of = half(direction);
        if (!of.eager)
            of.eager.emplace(device_, platform::kEagerBuffers * platform::kEagerBufferBytes);
        GPURUN_TRY(of.eager->pin());
        return of.eager->data() + index * platform::kEagerBufferBytes;
    }
    base::Result<std::byte*> relay_buffer(Direction, uint32_t, uint32_t, bool) override {
        return base::Error{base::Status::kUnsupported, "a scripted peer relays nothing"};
    }

  private:
    struct Arrived {
        Record record;
        std::vector<std::byte> payload;
    };
    struct Half {
        std::optional<PinnedPages> slots;
        std::optional<PinnedPages> eager;
        std::unique_ptr<transfer::Fence> fence;
        std::array<uint64_t, transfer::kTotals> totals{};
    };
    Half& half(Direction direction) { return halves_[direction == Direction::kOut ? 0 : 1]; }
    const Half& half(Direction direction) const { return const_cast<ScriptedChannel*>(this)->half(direction); }

    device::Device& device_;
    std::array<Half, 2> halves_;
    std::deque<Arrived> inbox_;
};

} // namespace gpurun::test
