// The job's shared segment: made by the launcher (or by a rank alone), mapped by every rank.
//
//   JobHeader
//   RankRecord[size]                          who is there, who lives, each rank's doorbell
//   places, uint32_t[size]                    which of the node's ranks each is; of those of other nodes, kElsewhere
//   for each ordered pair (source, target) of ranks of this node:
//     PairControl                             totals: what was taken out of the record ring, how far relays are
//     FenceSlot[kFenceSlots]                  the counters that order streams of the two
//     EventHandles                            used by the event fence only
//     record ring, kRingBytes                 envelopes and small host messages
//     eager buffers                           pinned: messages on streams that do not wait for their match
//     relay buffers                           pinned, pipelined: staged and host paths
//
// Everything is sparse, so a pair that exchanges no messages costs nothing. Parts of a pair are page-aligned: each rank
// pins only what it uses with its GPU. No pointers; fixed widths; kLayout changes with any of this.
//
// Who may write: each field names its writer. When a rank dies, the launcher marks it and poisons (poison_pairs).
#pragma once

#include "base/algorithms.hpp"
#include "base/limits.hpp"
#include "base/status.hpp"
#include "platform/peer_memory.hpp"
#include "platform/shared_memory.hpp"
#include "platform/wake.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpurun::platform {

constexpr uint32_t kLayout = 14;
constexpr uint32_t kMaxRanks = 256; // on a node
constexpr uint32_t kMaxJobRanks = 10'000;

// Poison: set in a fence counter whose writer has died. Waits for "at least" end at once, because real values stay far
// below bit 62; bit 0 (real values are even) wakes sleepers, which look at the low half. The value that was reached
// before can still be read.
constexpr uint64_t kPoison = (uint64_t{1} << 62) | 1;
constexpr bool is_poisoned(uint64_t value) { return (value & kPoison) != 0; }
constexpr uint64_t reached_value(uint64_t value) { return value & ~kPoison; }

constexpr size_t kFenceSlots = 320;
constexpr size_t kRingBytes = 144 * 1024;
constexpr size_t kRingEntryBytes = 16 * 1024; // its first part
constexpr size_t kEagerBuffers = 32;
constexpr size_t kEagerBufferBytes = base::kMostDeviceEagerBytes;
constexpr size_t kRelayBuffers = 4; // at least three pieces in flight, one being filled
constexpr size_t kRelayBufferBytes = base::kMostRelayChunkBytes;
constexpr size_t kRelayWindows = 8; // sets of such buffers: messages of different streams must not wait for each other
constexpr size_t kPairTotals = 1 + 2 * kRelayWindows;

struct JobHeader {
    uint32_t magic;
    uint32_t layout;
    uint32_t size;
    uint32_t cores;
    uint32_t here; // so many of them run on this node
};

enum class RankState : uint32_t { kStarting = 0, kAlive = 1, kFinalized = 2, kDying = 3, kDead = 4 };

// Presence: which threads of a rank notice a record by themselves, and which have to be woken. In one word, so that one
// read-modify-write reads all of it.
namespace presence {
constexpr uint64_t kSleeper = 1;                    // each thread that sleeps in a call, on the doorbell
constexpr uint64_t kAttendant = uint64_t{1} << 24;  // each thread that makes progress in a call
constexpr uint64_t kBackground = uint64_t{1} << 48; // the background thread sleeps, on its own doorbell
constexpr uint64_t kUrgent = uint64_t{1} << 56;     // collectives are under way: any record may be for them
constexpr uint64_t kSleepers = kAttendant - 1;
constexpr uint64_t kAttendants = kBackground - kAttendant;
} // namespace presence

// Whom to wake when something was published for a rank.
enum class Notify {
    kIfSleeping, // threads that sleep in a call; of an urgent rank as the next
    kAlways,     // also the background thread: somebody waits for this rank to do something
};

struct alignas(64) RankRecord {
    // Read often by all ranks, so in cache lines of its own, apart from what changes often.
    std::atomic<uint32_t> state;   // RankState; written by the rank, kDying and kDead by the launcher
    std::atomic<uint32_t> leaving; // steps of gpurun_finalize() that the rank has reached; by the rank
    int32_t pid;                   // by the rank, before Ready, as is the next
    int32_t has_probe;
    uint32_t heavy_fences;           // the rank has agreed to them
    std::atomic<uint32_t> captures;  // not 0 once the rank has captured a message; by the rank
    Token token;                     // by which a peer finds out whether it can read the rank's memory
    uint64_t started;                // when its process was (ProcessStat); by the rank, before Ready
    std::atomic<uint32_t> unwatched; // not 0: marked dead since nobody watches over the job, so it may live
    // As `leaving`, once all ranks of other nodes that it has met have taken note of that; tell_steps() writes it. By
    // this those learn of it that have not met it: a connection for each of them would be too many.
    std::atomic<uint32_t> steps_told;
    // The first two are written by anyone: +1, then wake, after publishing something for this rank.
    alignas(64) std::atomic<uint32_t> doorbell;
    std::atomic<uint32_t> background_bell;
    std::atomic<uint32_t> death_bell; // +1, then wake, by mark_dead() of any rank
    std::atomic<uint64_t> presence;   // by the rank
    // By the rank, before Ready: its device (a device::Identity) and, with has_probe, the handle of a small
    // allocation with a known pattern (a device::MemoryHandle), by which a peer tries whether direct copies work.
    alignas(64) std::array<std::byte, 40> device;
    std::array<std::byte, 64> probe;
    uint32_t orders_by_events; // by the rank, before Ready, as are the next four; else its streams do it by counters
    uint32_t has_mailboxes;
    std::array<std::byte, 64> workspace; // with has_mailboxes: the handle of the memory that they are in
    uint32_t checks;                     // its GPURUN_CHECK
    uint32_t node; // that the rank runs on; by whoever makes the segment, before Welcome. 0: of a job of one node
    // Where ranks of other nodes reach it, by the rank, before Ready; 0 bytes: nowhere.
    uint32_t fabric_address_bytes;
    std::array<std::byte, 64> fabric_address;
    base::AlgorithmsAskedFor algorithms; // by the rank, before Ready, as it asks for them
};
static_assert(sizeof(RankRecord) == 768);

// A host message that both ranks copy (transfer/protocol/shared_copy.hpp).
struct CopyClaims {
    std::atomic<uint64_t> taken;   // by both
    std::atomic<uint64_t> written; // by the source; the target sets it to 0
};

struct PairControl {
    // Bytes ever taken out of the two parts of the ring, updated in large steps; by the target.
    alignas(64) std::atomic<uint64_t> ring_entries;
    std::atomic<uint64_t> ring_payloads;
    // Not 0: the source has found no room, and waits for some. Set by the source, taken back by the target, which then
    // notifies it (transfer/channel/record_ring.hpp).
    std::atomic<uint32_t> ring_room_wanted;
    // What one side tells the other (transfer/channel/peer_channel.hpp). The first is by the target, the next half of
    // the others by the source, the last by the target.
    alignas(64) std::atomic<uint64_t> totals[kPairTotals];
    alignas(64) CopyClaims copy;
};
static_assert(sizeof(PairControl) == 320);

// `forward` is written by the source's side (stream or CPU) and awaited by the target's, `backward` the reverse.
struct FenceSlot {
    alignas(64) std::atomic<uint64_t> forward;
    alignas(64) std::atomic<uint64_t> backward;
};
static_assert(sizeof(FenceSlot) == 128);

// The event fence's IPC events, made as they are needed: the handle of a slot's event is written before its counter
// is first stored (release). `forward` by the source, `backward` by the target.
struct EventHandles {
    std::byte forward[kFenceSlots][64];
    std::byte backward[kFenceSlots][64];
};

constexpr size_t kRecordsOffset = 64; // behind the header
static_assert(sizeof(JobHeader) <= kRecordsOffset);

class JobSegment {
  public:
    // A new segment for `size` ranks (1 to kMaxRanks), all on this node.
    static base::Result<JobSegment> create(uint32_t size, uint32_t cores);
    // For the ranks of a job on several nodes (up to kMaxJobRanks), of which `nodes` has the node of each; 1 to
    // kMaxRanks of them are on `here`, this one.
    static base::Result<JobSegment> create(std::span<const uint32_t> nodes, uint32_t here, uint32_t cores);
    // Takes the descriptor of an existing one; kVersion if its layout is not ours.
    static base::Result<JobSegment> attach(UniqueFd fd);

    int fd() const { return fd_.get(); }
    uint32_t size() const { return size_; }
    const JobHeader& header() const { return *reinterpret_cast<const JobHeader*>(front_.data()); }
    RankRecord& rank(uint32_t rank) const {
        GPURUN_ASSERT(rank < size());
        return reinterpret_cast<RankRecord*>(front_.data() + kRecordsOffset)[rank];
    }
    uint32_t here() const { return here_; } // how many of the ranks run on the node of this segment
    std::span<const uint32_t> places() const { return places_; } // which of these each rank is, if it is one
    // Whether the rank is one of them.
    bool is_here(uint32_t rank) const { return places_[rank] != kElsewhere; }

    // REQUIRES: both are here, as for the parts of the pair, each a mapping of its own: they are pinned one by one and
    // most are never touched.
    PairControl& control(uint32_t source, uint32_t target) const;
    base::Result<Mapping> map_fences(uint32_t source, uint32_t target) const; // FenceSlot[kFenceSlots]
    base::Result<Mapping> map_events(uint32_t source, uint32_t target) const; // EventHandles
    base::Result<Mapping> map_ring(uint32_t source, uint32_t target) const;
    base::Result<Mapping> map_eager(uint32_t source, uint32_t target) const; // kEagerBuffers * kEagerBufferBytes
    base::Result<Mapping> map_relay(uint32_t source, uint32_t target,
                                    uint32_t window) const; // kRelayBuffers * kRelayBufferBytes

    // REQUIRES: every rank's record is written. Decides how sleepers are notified: without a read-modify-write, if all
    // ranks have agreed to heavy fences and each has a core.
    void choose_bells();
    // After publishing something with kIfSleeping: whether no thread of the rank has to be woken.
    bool is_awake(const RankRecord& record) const {
        if (!light_bells_)
            return false; // not known without ring_doorbell()
        light_fence();
        return (record.presence.load(std::memory_order_relaxed) & (presence::kSleepers | presence::kUrgent)) == 0;
    }
    // After publishing something for `rank`: wakes who has to be woken.
    void ring_doorbell(uint32_t rank, Notify notify) const;
    // A thread of the rank is going to sleep as kSleeper or as kUrgent, and looks once more after this. What is
    // published after that look rings.
    void announce(uint32_t rank, uint64_t presence) const;

    // By the rank, and on other nodes by whoever watches over ranks there: all ranks that it has met know that it has
    // come to so many steps of gpurun_finalize(). Wakes who may wait for that.
    void tell_steps(uint32_t rank, uint32_t steps) const;
    // Whether gpurun_finalize() has returned there.
    bool has_finalized(uint32_t rank) const {
        return this->rank(rank).state.load(std::memory_order_acquire) == static_cast<uint32_t>(RankState::kFinalized);
    }

    // Whoever watches over ranks: that has happened to `rank`, on another node. Wakes everybody.
    void mark_finalized(uint32_t rank) const;
    // The same: `rank` has ended without gpurun_finalize(). Marks it dying, so that whoever poison
    // releases sees why; poisons every counter that it would have signalled; marks it dead; wakes everybody.
    base::Result<void> mark_dead(uint32_t rank) const;
    // The same for a rank whose death nobody would notice any more. One that is dead already stays so.
    base::Result<void> mark_unwatched(uint32_t rank) const;
    // It was marked dead so, and its process has not ended.
    bool may_live(uint32_t rank) const;

  private:
    static constexpr uint32_t kElsewhere = UINT32_MAX;

    JobSegment(UniqueFd fd, Mapping front, std::vector<uint32_t> places, uint32_t here)
        : fd_(std::move(fd)), size_(static_cast<uint32_t>(places.size())), here_(here), places_(std::move(places)),
          front_(std::move(front)) {}

    static base::Result<JobSegment> make(std::vector<uint32_t> places, uint32_t here, uint32_t cores);
    template <typename Visit>
    void for_each_here(const Visit& visit) const {
        for (uint32_t each = 0; each < size(); ++each)
            if (is_here(each))
                visit(each);
    }
    // Where the parts of a pair begin.
    size_t pair_offset(uint32_t source, uint32_t target) const;

    UniqueFd fd_;
    // As they were: a rank that writes where it should not must not make gpurun look beyond the end.
    uint32_t size_;
    uint32_t here_;
    std::vector<uint32_t> places_; // by rank
    bool light_bells_ = false;
    Mapping front_; // header, rank records, places and pair controls
};

} // namespace gpurun::platform
