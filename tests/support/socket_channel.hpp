// A second implementation of PeerChannel, for ranks that have no memory in common: records over a socket pair. It shows
// what the runtime may ask of a channel, and nothing above it may know which one it has.
//
// Each side has memory of its own for edges, totals and relay buffers. What one side writes there is carried to the
// other's: an edge when it was signalled, and a relay buffer before the edge that says it is filled. A thread, the
// carrier, reads and writes the socket, so that what streams signal crosses while no thread of the rank is in a call.
// There are no eager buffers, no single copies, and no handles of device memory.
//
// A socket that ends without a goodbye is a peer that has died.
#pragma once

#include "platform/job_segment.hpp"
#include "platform/unique_fd.hpp"
#include "support/pinned_pages.hpp"
#include "transfer/channel/peer_channel.hpp"

#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace gpurun::test {

class SocketChannel final : public transfer::PeerChannel {
  public:
    using Direction = transfer::Direction;
    using Record = transfer::Record;
    using Notify = transfer::Notify;

    static constexpr uint64_t kRoom = 48; // records that the peer has not taken out yet

    static std::pair<platform::UniqueFd, platform::UniqueFd> make_sockets();
    // `own_job` has this rank's own record, by whose bells its threads are woken.
    SocketChannel(device::Device& device, const platform::JobSegment& own_job, base::WorldRank self,
                  base::WorldRank peer, platform::UniqueFd socket);
    // Says goodbye behind all that was published.
    ~SocketChannel() override;

    // The connection is lost, as when the peer's process dies; on both sides.
    void cut();

    transfer::Liveness liveness() const override { return liveness_.load(std::memory_order_acquire); }
    const transfer::RankFacts& facts() const override { return facts_; }
    bool has_captured() const override { return false; } // nobody can: there are no mailboxes
    uint32_t steps_of_leaving() const override { return steps_.load(std::memory_order_acquire); }
    void tell_steps_of_leaving(uint32_t steps) override;

    bool post(const Record& record, std::span<const std::byte> payload, Notify notify) override;
    bool post_few(transfer::ProtocolId protocol, const transfer::Envelope& envelope, const std::byte* payload,
                  uint64_t signature) override;
    void notify(Notify notify) override;
    bool has_records() const override { return arrived_.load(std::memory_order_acquire) != 0; }
    const Record* front(std::span<const std::byte>& ret_payload) override;
    void pop() override;

    void set_total(Direction direction, transfer::Total total, uint64_t value) override;
    uint64_t total(Direction direction, transfer::Total total) const override {
        return half(direction).totals[total].load(std::memory_order_acquire);
    }

    bool shares_memory() const override { return false; }
    base::Result<transfer::Fence*> fence(Direction direction) override;
    transfer::Fence* open_fence(Direction direction) const override { return half(direction).fence.get(); }
    base::Result<std::byte*> eager_buffer(Direction, uint32_t, bool) override;
    base::Result<std::byte*> relay_buffer(Direction direction, uint32_t window, uint32_t index,
                                          bool for_streams) override;
    void relay_buffer_filled(uint32_t window, uint32_t index, size_t bytes, const transfer::Slot& slot) override;

  private:
    class CarriedFence;
    // What crosses the socket, a packet each, with bytes behind it.
    enum class FrameKind : uint32_t {
        kRecord, // the bytes are its used part, and its payload
        kTaken,  // `value` records were taken out
        kNotify,
        kTotal,   // `number` reads `value`
        kEdge,    // of the slot `number` reads `value`
        kFilled,  // the bytes are those at `value` of the buffer `index` of the window `number`
        kSteps,   // of leaving: `number`
        kGoodbye, // nothing follows
    };
    struct Frame {
        FrameKind kind{};
        Notify notify = Notify::kIfSleeping;            // kRecord, kNotify
        Direction direction = Direction::kOut;          // kTotal, kEdge; as who sends it sees it
        transfer::Edge edge = transfer::Edge::kForward; // kEdge
        uint32_t number = 0;
        uint32_t index = 0;
        uint64_t value = 0;
    };
    // One that is to be sent. Its bytes are kept, or stay where they are until the peer answers.
    struct Packet {
        Frame frame;
        std::vector<std::byte> kept;
        std::span<const std::byte> lent;
    };
    // An edge that a stream is to signal: what its host function is given.
    struct Signal {
        SocketChannel* channel;
        Direction direction;
        transfer::Edge edge;
        transfer::Slot slot;
    };
    struct Arrived {
        Record record;
        std::vector<std::byte> payload;
    };
    // A part of a relay buffer that is filled once the edge is signalled.
    struct Filled {
        uint32_t window = 0;
        uint32_t index = 0;
        size_t bytes = 0;
    };
    using Use = std::pair<uint32_t, uint64_t>; // of a slot: its number, and the value
    struct Half {
        explicit Half(device::Device& device) : slots(device, platform::kFenceSlots * sizeof(platform::FenceSlot)) {}

        PinnedPages slots;
        std::unique_ptr<transfer::Fence> fence;
        std::array<std::unique_ptr<PinnedPages>, transfer::kRelayWindows> relay; // under mutex_, each until the end
        std::array<std::atomic<uint64_t>, transfer::kTotals> totals{};           // release by who tells it
    };

    Half& half(Direction direction) { return direction == Direction::kOut ? out_ : in_; }
    const Half& half(Direction direction) const { return const_cast<SocketChannel*>(this)->half(direction); }
    PinnedPages& relay_pages(Direction direction, uint32_t window);

    void send(Packet packet); // by any thread, as the next
    void wake_carrier() const;
    // REQUIRES mutex_, as the next.
    void enqueue(Packet packet);
    void enqueue_filled(const Filled& filled, const transfer::Slot& slot);
    // The edge has been signalled here; or will be, by what is in the stream.
    void carry(Direction direction, transfer::Edge edge, const transfer::Slot& slot);
    base::Result<void> carry_behind(device::Stream stream, Direction direction, transfer::Edge edge,
                                    const transfer::Slot& slot);

    // ---- the carrier
    void work();
    bool is_finished();
    void write_some();
    void read_some();
    void handle(const Frame& frame, std::span<const std::byte> bytes);
    void handle_record(const Frame& frame, std::span<const std::byte> bytes);
    void handle_taken(uint64_t taken);
    void lose();
    void notify_self(Notify notify) const { own_job_.ring_doorbell(self_.value, notify); }

    device::Device& device_;
    const platform::JobSegment& own_job_;
    const base::WorldRank self_;
    const platform::UniqueFd socket_;
    const platform::UniqueFd bell_; // of the carrier
    transfer::RankFacts facts_;
    Half out_;
    Half in_;

    std::atomic<transfer::Liveness> liveness_{transfer::Liveness::kAlive};
    std::atomic<uint32_t> steps_{0};
    std::atomic<size_t> arrived_{0}; // records in inbox_
    std::mutex mutex_;               // guards what follows
    std::deque<Packet> outbox_;
    std::deque<Arrived> inbox_;    // the first stays where it is until it is popped
    std::map<Use, Filled> filled_; // that are not signalled yet: several uses of a slot, if its stream is held
    std::deque<Signal> signals_;
    std::vector<Signal*> unused_signals_;
    uint64_t posted_ = 0;        // records
    uint64_t taken_by_peer_ = 0; // of them
    uint64_t taken_ = 0;         // of the peer's
    bool waits_for_room_ = false;
    bool leaves_ = false;

    bool heard_goodbye_ = false; // the carrier's, as the next
    bool ended_ = false;         // nothing more will come
    std::thread carrier_;        // last: it uses all of it
};

} // namespace gpurun::test
