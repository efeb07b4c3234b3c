// The channel between two ranks of one machine, by the job segment: a record ring and counters in each direction,
// pinned buffers, doorbells.
//
// Parts of the segment are mapped, and pinned for the device, when they are first needed, so a pair that never talks
// costs two mappings.
#pragma once

#include "transfer/channel/peer_channel.hpp"
#include "transfer/channel/record_ring.hpp"

#include <array>
#include <memory>

namespace gpurun::transfer {

class ShmChannel final : public PeerChannel {
  public:
    struct Options {
        bool events = false; // order streams by IPC events, also where the device has counters
        bool mps = false;    // ranks that share a device run on it at the same time
        int first_device_peer = 0;
    };
    // Before the rank is ready: what its peers will read.
    static void publish(platform::RankRecord& own, const RankFacts& facts);
    static base::Result<std::unique_ptr<PeerChannel>> open(device::Device& device, const platform::JobSegment& job,
                                                           base::WorldRank self, base::WorldRank peer,
                                                           const Options& options);
    ~ShmChannel() override;

    Liveness liveness() const override;
    bool is_unwatched() const override { return record_.unwatched.load(std::memory_order_relaxed) != 0; }
    bool has_ended() const override;
    const RankFacts& facts() const override { return facts_; }
    bool has_captured() const override { return record_.captures.load(std::memory_order_relaxed) != 0; }
    uint32_t steps_of_leaving() const override { return record_.leaving.load(std::memory_order_acquire); }
    void tell_steps_of_leaving(uint32_t) override { notify(Notify::kIfSleeping); } // it reads the record

    bool post(const Record& record, std::span<const std::byte> payload, Notify notify) override;
    bool post_few(ProtocolId protocol, const Envelope& envelope, const std::byte* payload, uint64_t signature) override;
    void notify(Notify notify) override { job_.ring_doorbell(peer().value, notify); }
    bool has_records() const override { return !consumer_.empty(); }
    const Record* front(std::span<const std::byte>& ret_payload) override {
        const Record* const record = consumer_.front();
        if (record != nullptr)
            ret_payload = consumer_.payload();
        return record;
    }
    void pop() override {
        consumer_.pop();
        tell_of_room();
    }
    void poll(Sink sink) override;

    void set_total(Direction direction, Total total, uint64_t value) override {
        control(direction).totals[total].store(value, std::memory_order_release);
    }
    uint64_t total(Direction direction, Total total) const override {
        return control(direction).totals[total].load(std::memory_order_acquire);
    }

    bool shares_memory() const override { return true; }
    base::Result<Fence*> fence(Direction direction) override;
    Fence* open_fence(Direction direction) const override { return half(direction).fence.get(); }
    base::Result<std::byte*> eager_buffer(Direction direction, uint32_t index, bool for_streams) override;
    base::Result<std::byte*> relay_buffer(Direction direction, uint32_t window, uint32_t index,
                                          bool for_streams) override;
    PeerMemory* memory() override { return &memory_; }

  private:
    // A piece of the segment.
    struct Part {
        platform::Mapping mapping;
        bool pinned = false;
    };
    // One direction. To itself, a rank has one for both.
    struct Half {
        platform::PairControl* control = nullptr;
        Part fences;
        Part eager;
        std::array<Part, kRelayWindows> relay;
        platform::Mapping events;
        std::unique_ptr<Fence> fence; // before its mappings in destruction
    };
    class Memory final : public PeerMemory {
      public:
        explicit Memory(const ShmChannel& channel) : channel_(channel) {}
        bool is_readable() override;
        bool is_still_readable() const override;
        base::Result<void> read(void* destination, uint64_t source, size_t bytes) const override;
        base::Result<void> write(uint64_t destination, const void* source, size_t bytes) const override;
        platform::CopyClaims& claims(Direction direction) const override { return channel_.control(direction).copy; }

      private:
        const ShmChannel& channel_;
        std::optional<bool> readable_;
    };

    ShmChannel(device::Device& device, const platform::JobSegment& job, base::WorldRank self, base::WorldRank peer,
               const Options& options, platform::Mapping out_ring, platform::Mapping in_ring);

    Half& half(Direction direction) { return halves_[!to_self() && direction == Direction::kIn ? 1 : 0]; }
    const Half& half(Direction direction) const { return const_cast<ShmChannel*>(this)->half(direction); }
    platform::PairControl& control(Direction direction) const { return *half(direction).control; }
    uint32_t source(Direction direction) const { return direction == Direction::kOut ? self_.value : peer().value; }
    uint32_t target(Direction direction) const { return direction == Direction::kOut ? peer().value : self_.value; }
    base::Result<void> pin(Part& part);
    // Its background thread too: nobody else may be there to post what waits for room.
    void tell_of_room() {
        if (consumer_.gave_wanted_room()) [[unlikely]]
            notify(Notify::kAlways);
    }

    device::Device& device_;
    const platform::JobSegment& job_;
    const base::WorldRank self_;
    device::Counters* const counters_;   // or null
    const platform::RankRecord& record_; // the peer's
    mutable bool ended_ = false;         // its process, for all time
    RankFacts facts_;
    std::array<Half, 2> halves_;
    platform::Mapping out_ring_;
    platform::Mapping in_ring_;
    RingProducer producer_;
    RingConsumer consumer_;
    bool full_ = false; // there was no room, and the peer was notified
    Memory memory_{*this};
};

} // namespace gpurun::transfer
