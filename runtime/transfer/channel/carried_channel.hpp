// What channels without memory in common share: each side has memory of its own for edges, totals and relay buffers,
// and what one side writes there is carried to the other's. An edge when it was signalled; a relay buffer before the
// edge that says it is filled. There are no single copies, and no handles of device memory.
//
// Streams signal and await numbers of their own side. An edge that a stream is to signal is watched until its number
// here has come, and then carried; no stream runs a host function for it, since one of the program's that blocks would
// hold it up.
//
// What is to be carried are items, in order, in the outbox. A channel of a certain kind takes them out and brings them
// to the other side, which gives them to arrive(); a thread of its own does that while no thread of the rank is in a
// call. One mutex, the channel's or that of all which have one way out, guards the outbox and the inbox. It is held for
// no longer than one item takes.
#pragma once

#include "transfer/channel/inbox.hpp"
#include "transfer/channel/own_pages.hpp"
#include "transfer/channel/peer_channel.hpp"
#include "transfer/channel/reused_queue.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

namespace gpurun::transfer {

// What a relay buffer was filled with, and the edge that says so.
struct FilledBytes {
    uint32_t window = 0;
    size_t offset = 0; // in the memory of the window; kFrameRoom before it are free
    std::span<const std::byte> bytes;
    uint8_t slot = 0; // the edge's
    uint8_t use = 0;  // of the slot, counted round
};

class CarriedChannel : public PeerChannel {
  public:
    Liveness liveness() const override { return liveness_.load(std::memory_order_acquire); }
    const RankFacts& facts() const override { return facts_; }
    bool has_captured() const override { return has_captured_.load(std::memory_order_relaxed); }
    uint32_t steps_of_leaving() const override;
    void tell_steps_of_leaving(uint32_t steps) override;
    bool knows_steps_of_leaving() const override;

    bool post(const Record& record, std::span<const std::byte> payload, Notify notify) override;
    bool post_few(ProtocolId protocol, const Envelope& envelope, const std::byte* payload, uint64_t signature) override;
    void notify(Notify notify) override;
    bool has_records() const override { return !inbox_.empty(); }
    const Record* front(std::span<const std::byte>& ret_payload) override;
    void pop() override;

    void set_total(Direction direction, Total total, uint64_t value) override;
    uint64_t total(Direction direction, Total total) const override {
        return half(direction).totals[total].load(std::memory_order_acquire);
    }

    bool shares_memory() const override { return false; }
    base::Result<Fence*> fence(Direction direction) override;
    Fence* open_fence(Direction direction) const override { return half(direction).fence.get(); }
    base::Result<std::byte*> eager_buffer(Direction direction, uint32_t index, bool for_streams) override;
    base::Result<std::byte*> relay_buffer(Direction direction, uint32_t window, uint32_t index,
                                          bool for_streams) override;
    void relay_buffer_filled(uint32_t window, uint32_t index, size_t bytes, const Slot& slot) override;
    void push() override;

  protected:
    struct Site {
        device::Device& device;          // with counters
        const platform::JobSegment& job; // has this rank's own record, by whose bells its threads are woken
        base::WorldRank self;
        base::WorldRank peer;
        std::mutex& mutex;
        int first_device_peer = 0;
    };
    // What is made before the channel, since that may fail.
    struct Pages {
        std::unique_ptr<OwnPages> out;
        std::unique_ptr<OwnPages> in;

        static base::Result<Pages> create(device::Device& device);
    };
    enum class ItemKind : uint8_t {
        kRecord = 1, // its used part and its payload, `value` bytes in all
        kTaken,      // the inbox is emptied up to `value`
        kNotify,
        kTotal,     // `number` reads `value`
        kEdge,      // of the slot `number` reads `value`
        kFilled,    // the bytes are those at `value` of the buffer `index` of the window `number`
        kSteps,     // of leaving: `value`
        kCaptured,  // a message, ever
        kGoodbye,   // nothing follows
        kLanding,   // the buffers of the window `number` can be written, as its bytes say
        kBeat,      // nothing
        kStepsSeen, // `value` steps of leaving were taken note of
    };
    // In front of its bytes, on the wire.
    struct Item {
        ItemKind kind{};
        uint8_t notify = 0;    // a Notify: kRecord, kNotify
        uint8_t direction = 0; // a Direction: kTotal, kEdge; as who sends it sees it
        uint8_t edge = 0;      // an Edge: kEdge
        uint16_t number = 0;
        uint16_t index = 0;
        uint32_t bytes = 0; // that follow
        uint32_t reserved = 0;
        uint64_t value = 0;
    };
    static_assert(sizeof(Item) == 24);

    CarriedChannel(const Site& site, Pages pages, RankFacts facts);

    // There is something in the outbox. REQUIRES mutex(), as all that follows.
    virtual void carry_on() = 0;
    // The same, but a notification follows if it is urgent.
    virtual void carry_soon() { carry_on(); }
    // There is one more edge to look at.
    virtual void on_watched() { carry_on(); }
    // The buffers of a window into which the peer's are carried were made here: the peer may be told of them.
    virtual void on_landing_made(uint32_t window, OwnPages& pages) { (void)window, (void)pages; }
    // The peer has told of its. False: it is damaged.
    virtual bool on_landing_told(uint32_t window, std::span<const std::byte> how) {
        (void)window, (void)how;
        return false;
    }
    void tell_landing(uint32_t window, std::span<const std::byte> how);

    bool has_items() const { return !outbox_.empty(); }
    // Writes the next item, or as much of its bytes as fits, and drops what it has written. 0: there is no room for it.
    size_t write_item(std::span<std::byte> to);
    // In front of each relay buffer is room for items that go with its bytes.
    static constexpr size_t kFrameRoom = 4096;
    // Of the items in the outbox.
    size_t bytes_to_carry() const { return kept_.content().size() + lent_bytes_; }
    // If the next item are such bytes, and none of them was carried: those.
    std::optional<FilledBytes> next_bytes() const;
    // They and their edge are carried in another way.
    void drop_bytes() {
        lent_bytes_ -= outbox_.front().left;
        outbox_.drop(2);
    }
    // The peer's bytes are here. False: it is damaged.
    bool arrive_bytes(uint8_t slot, uint8_t use);
    // What has come in front of them. REQUIRES that they have arrived. Empty: it is damaged.
    std::span<const std::byte> room_before(uint8_t slot, size_t bytes);
    OwnPages& pages_out(uint32_t window) { return *out_.buffers[window]; }
    // What another process may still write, or a provider read, outlives the channel.
    void give_pages(std::vector<std::unique_ptr<OwnPages>>& to);
    void say_goodbye() { enqueue({.kind = ItemKind::kGoodbye}); }
    void say_still_here() { enqueue({.kind = ItemKind::kBeat}); }
    bool heard_goodbye() const { return heard_goodbye_; }
    bool is_lost() const { return lost_; }
    // Carries each watched edge that has come by now. Whether there was one.
    bool carry_reached();
    // Edges are watched: whoever carries looks at carry_reached() again and again.
    bool is_watching() const { return !watched_.empty(); }
    // Reads one item, and does what it says. How long it was; none: it is damaged.
    std::optional<size_t> read_item(std::span<const std::byte> from);
    // The peer has died: poisons what it would have signalled, and nothing is carried any more.
    void lose();

    std::mutex& mutex() const { return site_.mutex; }
    const Site& site() const { return site_; }

  private:
    class CarriedFence;
    // An item that is to be carried. Its bytes stay where they are until the peer answers, or are kept, in the order of
    // the items.
    struct Packet {
        Item item;
        const std::byte* lent; // null: kept
        size_t left;           // of its bytes
        size_t carried;
    };
    // An edge that is, or will be, signalled here.
    struct Signal {
        Direction direction;
        Edge edge;
        Slot slot;
    };
    // A part of a relay buffer that is filled once the edge is signalled: of the slot's use with that value.
    struct Filled {
        uint32_t slot_number = 0;
        uint32_t window = 0;
        uint32_t index = 0;
        uint64_t value = 0;
        size_t bytes = 0;
    };
    struct Half {
        std::unique_ptr<OwnPages> slots;
        std::unique_ptr<Fence> fence;
        // Of each window, and the eager buffers behind them; under the mutex, each until the end.
        std::array<std::unique_ptr<OwnPages>, kRelayWindows + 1> buffers;
        std::array<std::atomic<uint64_t>, kTotals> totals{}; // release by who tells it
    };

    Half& half(Direction direction) { return direction == Direction::kOut ? out_ : in_; }
    const Half& half(Direction direction) const { return const_cast<CarriedChannel*>(this)->half(direction); }
    void notify_self(Notify notify) const { site_.job.ring_doorbell(site_.self.value, notify); }
    void send(const Item& item);

    // REQUIRES mutex(), as the next ones.
    void enqueue(const Item& item, std::span<const std::byte> lent = {});
    bool may_enqueue();
    void enqueue_filled(const Filled& filled);
    void enqueue_edge(const Signal& signal);
    bool has_come(const Signal& signal) const;
    base::Result<OwnPages*> pages_of(Direction direction, uint32_t window);
    bool arrive(const Item& item, std::span<const std::byte> bytes);
    bool arrive_record(const Item& item, std::span<const std::byte> bytes);
    bool arrive_edge(const Item& item);
    bool arrive_filled(const Item& item, std::span<const std::byte> bytes);
    bool arrive_taken(uint64_t emptied);

    void carry(const Signal& signal); // it has come
    void watch(const Signal& signal); // what is in a stream will make it
    base::Result<std::byte*> buffer(Direction direction, uint32_t window, uint32_t index, bool for_streams);

    const Site site_;
    RankFacts facts_;
    Half out_;
    Half in_;
    std::atomic<Liveness> liveness_{Liveness::kAlive};
    std::atomic<uint32_t> steps_{0};
    std::atomic<uint32_t> steps_seen_{0}; // of this rank's own
    std::atomic<uint32_t> steps_told_{0}; // written under the mutex, as the next
    std::atomic<bool> met_{false};        // something was to be carried, or has come
    std::atomic<bool> has_captured_{false};
    Inbox inbox_;
    // Under the mutex.
    ReusedQueue<Packet> outbox_;
    ReusedQueue<std::byte> kept_;
    size_t lent_bytes_ = 0;       // to the outbox
    InboxRoom room_;              // in the peer's inbox
    std::vector<Filled> filled_;  // that are not signalled yet: several uses of a slot, if its stream is held
    std::vector<Signal> watched_; // those of a slot with growing values
    bool waits_for_room_ = false;
    uint32_t steps_carried_ = 0;
    bool told_captured_ = false;
    bool heard_goodbye_ = false;
    bool lost_ = false;
};

} // namespace gpurun::transfer
