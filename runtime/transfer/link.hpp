// Everything between this rank and one peer (which may be itself): both record rings, both fences, the buffers that
// messages pass through, the mappings of the peer's memory, and what was moved.
//
// Shared parts are mapped, and pinned with the device, when they are first needed: a pair that never talks costs
// two small mappings. Owned by comm::Engine, used under its lock.
#pragma once

#include "base/list.hpp"
#include "transfer/channels.hpp"
#include "transfer/context.hpp"
#include "transfer/fence.hpp"
#include "transfer/import_cache.hpp"
#include "transfer/mailbox.hpp"
#include "transfer/path.hpp"
#include "transfer/record_ring.hpp"
#include "transfer/slots.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>

namespace gpurun::transfer {

class Outgoing;
class Incoming;

// The lists that transfers can be in.
struct Unposted; // sends that have found no room yet
struct Owing;    // sends whose target waits for their edge
struct Placed;   // where the link waits for them, or they for their turn in a relay
struct Moving;   // the engine's, of those that advance() moves

// One direction of the pair, as one of its two ends sees it.
class Half {
  public:
    Half(Context& context, uint32_t source, uint32_t target, Role role, int peer)
        : context_(context), control_(context.job.control(source, target)), source_(source), target_(target),
          role_(role), peer_(peer) {}
    // The other end of a direction whose two ends are the same rank: the same fence, in one process.
    explicit Half(Half* same) : Half(same->context_, same->source_, same->target_, same->role_, same->peer_) {
        same_ = same;
    }
    ~Half();

    // Pinned: even what only CPUs signal is awaited by a stream when a thread sleeps for it.
    base::Result<Fence*> fence();
    // Null as long as nobody has needed it.
    Fence* open_fence() const { return same_ != nullptr ? same_->open_fence() : fence_.get(); }
    // `for_streams`: streams will use it too, so it must be pinned.
    base::Result<std::byte*> eager_buffer(uint32_t index, bool for_streams);
    base::Result<std::byte*> relay_buffer(uint32_t index, bool for_streams);
    platform::PairControl& control() const { return control_; }

  private:
    struct Part {
        platform::Mapping mapping;
        bool pinned = false;
    };
    base::Result<void> pin(Part& part);

    Context& context_;
    platform::PairControl& control_;
    uint32_t source_;
    uint32_t target_;
    Role role_;
    int peer_;
    Half* same_ = nullptr;
    Part fences_;
    Part eager_;
    Part relay_;
    platform::Mapping events_;
    std::unique_ptr<Fence> fence_; // before its mappings in destruction
};

// A stream that a transfer with the peer was enqueued in, and the edge that it awaits there.
struct InFlight {
    device::Stream stream;
    uint64_t value = 0;
};

// What was enqueued in `from`, and still depends on the peer, concerns `to` from now on.
template <typename InFlights>
void hand_over(InFlights& in_flights, device::Stream from, device::Stream to) {
    for (InFlight& each : in_flights)
        if (each.value != 0 && each.stream.native == from.native)
            each.stream = to;
}

class Link {
  public:
    static base::Result<std::unique_ptr<Link>> open(Context& context, uint32_t peer);

    const uint32_t peer;
    const bool to_self;
    Half out; // from this rank to the peer
    Half in;  // from the peer to this rank
    RingConsumer consumer;

    Tally sent;
    Tally received;
    bool lost = false; // the peer has died
    // How many messages have gone each way, by which traces name them. Those of graphs keep an order of their own.
    struct Count {
        uint64_t messages = 0;
        uint64_t captured = 0;
    };
    Count out_count;
    Count in_count;

    // The peer's record in the job segment.
    const platform::RankRecord& peer_record;
    bool is_gone() const { return platform::JobSegment::is_gone(peer_record); }

    // An inline message of a few bytes (RingProducer::kLargestShort), told to the peer. False if it has to be pushed as
    // others are.
    bool push_short(const Envelope& envelope, const std::byte* payload) {
        if (!producer_.push_short(envelope, payload))
            return false;
        if (!context_.job.is_awake(peer_record))
            context_.job.ring_doorbell(peer, platform::News::kPassive);
        return true;
    }
    // Publishes a record and tells the peer. False if there is no room: the peer is to make some, even if it computes.
    bool push(const Record& record, std::span<const std::byte> payload, platform::News news);
    // Sends a record that answers or announces; keeps it until there is room. Never a message, but of graphs: those
    // keep their own order.
    void tell(const Record& record);
    // Sends what waits for room. True if nothing is left.
    bool flush();
    // Nothing of it waits for anything but the peer's next record.
    bool has_told() const { return backlog_.empty(); } // all that tell() was given
    bool quiet() const {
        return backlog_.empty() && unposted.empty() && owing_edge.empty() && !imports && channels.quiet();
    }

    // ---- this rank as source ------------------------------------------------------------------------------
    Slots<kDirectSlot, kDirectSlots> direct_slots;
    Slots<kLateSlot, kLateSlots> late_slots;
    void settle(const SlotValue& slot, Edge last); // of a request
    Slots<kEagerSlot, static_cast<uint32_t>(platform::kEagerBuffers)> eager_slots;
    Slots<kMailSlot, kMailSlots> mail_slots;
    Slots<kSmallMailSlot, kSmallMailSlots> small_mail_slots;
    Outbox outbox;
    uint64_t next_serial = 1;
    uint64_t eager_sent = 0;                 // bytes, against PairControl::eager_matched
    uint64_t eager_matched_seen = 0;         // as last read: saves the shared line most of the time
    base::List<Outgoing, Unposted> unposted; // in call order
    base::List<Outgoing, Placed> unanswered; // requests
    base::List<Outgoing, Owing> owing_edge;  // those of them that are matched, and wait for a slot
    base::List<Outgoing, Placed> relay_out;  // granted, in grant order; the first one moves
    std::array<uint64_t, platform::kRelayPools> chunks_filled{};
    // Whether mails can go to the peer. The first call finds out.
    bool open_outbox();
    // What the target needs to know of a source's buffer.
    void describe_source(const Operand& operand, SourceBuffer& source);
    // Messages of graphs, as source and as target.
    Channels channels;
    bool open_channels();              // whether there can be any
    std::byte* peers_channels();       // in the peer's workspace, what this rank allots; REQUIRES open_channels()
    std::byte* peers_channel_counts(); // and what the peer does
    // This rank's device pool for the peer, made at first use.
    base::Result<std::byte*> slab();

    // ---- this rank as target ------------------------------------------------------------------------------
    std::optional<ImportCache> imports; // opened with the first direct message
    base::Result<ImportCache*> open_imports();
    // Whether a message of `bytes` from the allocation is to map it. Large ones take longer to map than their first
    // message takes on another path, and many are used once.
    bool worth_mapping(const SourceBuffer& source, uint64_t bytes);
    // Whether the allocation is mapped, now or already. What cannot be is remembered, and not tried again.
    bool maps(const SourceBuffer& source);
    base::List<Incoming, Placed> edgeless_in; // matched, but their edges have not come
    bool shares_copy = false;                 // some message of the peer's is copied by both
    base::List<Incoming, Placed> to_share;    // others that will be, in the order of their matches
    uint64_t longest_shared = 0;              // at least of these; 0: of none yet
    base::List<Incoming, Placed> relay_in;    // granted, in grant order
    std::array<uint64_t, platform::kRelayPools> chunks_drained{};
    std::optional<device::MemoryHandle> peer_slab_handle;
    base::Result<const std::byte*> peer_slab();
    // Whether direct copies from the peer's device work, and why (not). Tried once.
    Choice reach();
    // Whether a CPU here can read the peer's ordinary memory. Tried once.
    bool can_read();

    // Of an inline message, as far as there is room.
    void copy_inline(std::span<const std::byte> payload, std::span<std::byte> into) {
        const size_t bytes = std::min(payload.size(), into.size());
        if (bytes <= kMostFew)
            copy_few(into.data(), payload.data(), bytes);
        else
            std::memcpy(into.data(), payload.data(), bytes);
        note_inline(payload.size());
    }
    // It has its receive: gives its credit back, and counts it.
    void note_inline(uint64_t bytes) {
        auto& matched = in.control().eager_matched; // only this process writes it
        matched.store(matched.load(std::memory_order_relaxed) + bytes + sizeof(Record), std::memory_order_relaxed);
        received.count(inline_choice(), bytes);
    }
    Choice inline_choice() const { return {to_self ? Path::kSelf : Path::kShm, Reason::kHostMemory}; }

    // ---- when the peer dies --------------------------------------------------------------------------------
    // What is enqueued in streams and still depends on the peer, by slot.
    std::array<InFlight, kSlotsUsed> awaiting_backward{}; // as source
    std::array<InFlight, kSlotsUsed> awaiting_forward{};  // as target
    // Calls with the edge, its slot, who waits, and the number that it has come to, for each that has not come.
    template <typename Call>
    void for_each_held(Call call) const {
        const auto look = [&](const auto& in_flight, const Fence* fence, Edge edge) {
            for (uint32_t slot = 0; fence != nullptr && slot < in_flight.size(); ++slot) {
                const uint64_t now = in_flight[slot].value == 0 ? 0 : fence->counter(edge, slot).load();
                if (now < in_flight[slot].value)
                    call(edge, slot, in_flight[slot], now);
            }
        };
        look(awaiting_forward, in.open_fence(), Edge::kForward);
        look(awaiting_backward, out.open_fence(), Edge::kBackward);
    }

    base::Result<void> close();
    ~Link();

  private:
    Link(Context& context, uint32_t peer_, platform::Mapping out_ring, platform::Mapping in_ring);

    bool publish(const Record& record, std::span<const std::byte> payload);

    Context& context_;
    platform::Mapping out_ring_;
    platform::Mapping in_ring_;
    RingProducer producer_;
    bool full_ = false; // there was no room, and the peer was told
    std::deque<Record> backlog_;
    std::byte* slab_ = nullptr;
    void* peer_slab_ = nullptr;
    std::array<uint64_t, 16> used_once_{}; // large allocations, in turn
    size_t next_used_once_ = 0;
    std::array<uint64_t, 16> unmappable_{}; // allocations, in turn
    size_t next_unmappable_ = 0;
    std::optional<Choice> reach_;
    std::optional<bool> can_read_;
};

} // namespace gpurun::transfer
