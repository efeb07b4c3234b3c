// How one peer is reached: records and notifications, its liveness, and the memory by which streams of the two ranks
// are ordered and through which their bytes pass. Nothing above asks the job segment about a peer.
//
// open.cpp has the table of those that there are, and chooses. tests/support/socket_channel.hpp is another one: records
// over a socket pair, and no memory in common.
//
// One for each peer, a rank itself included; owned by its Peer. Used under the engine lock.
#pragma once

#include "base/function_ref.hpp"
#include "base/world_rank.hpp"
#include "transfer/channel/few_bytes.hpp"
#include "transfer/channel/record.hpp"
#include "transfer/fence/fence.hpp"

#include <optional>
#include <span>

namespace gpurun::transfer {

enum class Direction : uint8_t { kOut, kIn }; // from this rank to the peer, from the peer to this rank

enum class Liveness {
    kAlive,
    kDying, // its process is gone, and its edges are being poisoned: a wait that ends now may end by poison
    kDead,  // all its edges are poisoned: which messages were complete can be told
};

using platform::Notify;

// Totals: numbers that only grow, which one side of a direction tells the other.
using Total = uint8_t;
constexpr Total kEagerMatched = 0; // bytes of inline messages, with their records, that the target has matched
constexpr Total relay_filled(uint32_t window) {
    return static_cast<Total>(1 + window);
} // chunks enqueued by the source
constexpr Total relay_drained(uint32_t window) {
    return static_cast<Total>(1 + kRelayWindows + window);
} // by the target
constexpr size_t kTotals = 1 + 2 * kRelayWindows;
static_assert(kTotals == platform::kPairTotals && kRelayWindows == platform::kRelayWindows);

// What an eager buffer takes where memory is not shared.
constexpr size_t kEagerPiece = size_t{64} << 10;

// What a rank tells the others before any of them sends to it. Each channel brings it to its peers in its own way
// (publish() in its row of the table), and gives what it has got from a peer as facts().
struct RankFacts {
    device::Identity device{};
    std::optional<device::MemoryHandle> probe;     // of a small allocation with a known pattern
    std::optional<device::MemoryHandle> workspace; // of the memory that its mailboxes are in
    bool orders_by_events = false;                 // its streams; else counters do
    bool checks = false;                           // its settings; rank 0's count for all
    base::AlgorithmsAskedFor algorithms{};
    bool takes_turns = false; // shares its device without MPS: no kernel may spin there. Not told,
                              // but found when all ranks are ready
};

// Single copies between the ordinary memory of the two processes.
class PeerMemory {
  public:
    virtual ~PeerMemory() = default;
    // Whether the peer's memory can be read. Tried with the first call, and remembered.
    virtual bool is_readable() = 0;
    // The same, tried with each call.
    virtual bool is_still_readable() const = 0;
    virtual base::Result<void> read(void* destination, uint64_t source, size_t bytes) const = 0;
    virtual base::Result<void> write(uint64_t destination, const void* source, size_t bytes) const = 0;
    // The words by which both sides divide one copy of this direction (protocol/shared_copy.hpp).
    virtual platform::CopyClaims& claims(Direction direction) const = 0;
};

class PeerChannel {
  public:
    // The device knows ranks of this job from the number `first_device_peer` on.
    PeerChannel(base::WorldRank peer, bool to_self, int first_device_peer = 0)
        : peer_(peer), to_self_(to_self), device_peer_(first_device_peer + static_cast<int>(peer.value)) {}
    virtual ~PeerChannel() = default;
    PeerChannel(const PeerChannel&) = delete;
    PeerChannel& operator=(const PeerChannel&) = delete;

    base::WorldRank peer() const { return peer_; }
    bool to_self() const { return to_self_; }
    int device_peer() const { return device_peer_; } // what the device calls the peer (device::Device::add_peer)

    // ---- who is there
    virtual Liveness liveness() const = 0;
    bool is_gone() const { return liveness() != Liveness::kAlive; }
    virtual bool is_cut_off() const { return false; }   // it lives, and cannot be reached any more
    virtual bool is_held_back() const { return false; } // what was sent to it has not left yet
    // It is taken for dead only since nobody watches over the job any more.
    virtual bool is_unwatched() const { return false; }
    // REQUIRES is_gone(). Whether nothing of it can use this rank's memory any more. It may still be ending, or live.
    virtual bool has_ended() const { return true; }
    virtual const RankFacts& facts() const = 0;
    virtual bool has_captured() const = 0;         // messages into graphs, ever
    virtual uint32_t steps_of_leaving() const = 0; // of gpurun_finalize() that it has reached
    // This rank has reached so many, and its own record in the job says so. One that it has not met is not told.
    virtual void tell_steps_of_leaving(uint32_t steps) = 0;
    // Whether it has taken note of that, lives no more, or was not met.
    virtual bool knows_steps_of_leaving() const { return true; }

    // ---- records, in the order of the calls
    // Posts a record, and notifies the peer. False if there is no room: the peer is then notified (kAlways), so that it
    // makes some.
    virtual bool post(const Record& record, std::span<const std::byte> payload, Notify notify) = 0;
    // The same for a message without a body, of at most kMostFew bytes, or kMostFewSigned if the signature is not 0,
    // with kIfSleeping. May be false where post() is not.
    static constexpr size_t kMostFewSigned = kMostFew - sizeof(uint64_t);
    virtual bool post_few(ProtocolId protocol, const Envelope& envelope, const std::byte* payload,
                          uint64_t signature) = 0;
    virtual void notify(Notify notify) = 0;
    virtual bool has_records() const = 0; // cheap
    // The oldest that was not popped, and its payload; null: there is none. Both stay valid until pop().
    virtual const Record* front(std::span<const std::byte>& ret_payload) = 0;
    // REQUIRES front(). A peer that waits for room learns when there is some.
    virtual void pop() = 0;
    // Gives every record that is there to `sink`, and pops it.
    using Sink = base::FunctionRef<void(const Record& record, std::span<const std::byte> payload)>;
    virtual void poll(Sink sink) {
        std::span<const std::byte> payload;
        while (const Record* const record = front(payload)) {
            sink(*record, payload);
            pop();
        }
    }

    // ---- totals
    virtual void set_total(Direction direction, Total total, uint64_t value) = 0; // release
    virtual uint64_t total(Direction direction, Total total) const = 0;           // acquire

    // ---- order
    // Whether both ranks use the same counters and buffers. If not, the channel itself carries signals, and the
    // contents of buffers, from one side to the other; then messages go inline, eager or by relay only.
    virtual bool shares_memory() const = 0;
    virtual base::Result<Fence*> fence(Direction direction) = 0; // made when it is first asked for
    virtual Fence* open_fence(Direction direction) const = 0;    // null if fence() was never called
    // Buffers that both ranks reach; pinned if `for_streams`.
    virtual base::Result<std::byte*> eager_buffer(Direction direction, uint32_t index, bool for_streams) = 0;
    virtual base::Result<std::byte*> relay_buffer(Direction direction, uint32_t window, uint32_t index,
                                                  bool for_streams) = 0;
    // This rank, as source, has filled `bytes` of the relay buffer (of kEagerWindow: the eager buffer) and signalled
    // `slot`'s forward edge, or has enqueued both. Nothing to do where memory is shared. In a stream that is held, the
    // buffer's next uses may be enqueued before the edge of the first is signalled.
    static constexpr uint32_t kEagerWindow = kRelayWindows;
    // Where memory is not shared, it crosses with what is posted next, or by push().
    virtual void relay_buffer_filled(uint32_t window, uint32_t index, size_t bytes, const Slot& slot) {
        (void)window, (void)index, (void)bytes, (void)slot;
    }
    virtual void push() {}

    // ---- capabilities
    virtual PeerMemory* memory() { return nullptr; } // null: there are no single copies

  private:
    const base::WorldRank peer_;
    const bool to_self_;
    const int device_peer_;
};

} // namespace gpurun::transfer
