// The job's shared segment: made by the launcher (or by a rank alone), mapped by every rank.
//
//   JobHeader
//   RankRecord[size]                          who is there, who lives, each rank's doorbell
//   for each ordered pair (source, target):
//     PairControl                             heads and tails of the record ring and of the relay
//     FenceSlot[kFenceSlots]                  the counters that order streams of the two
//     EventHandles                            used by the event fence only
//     record ring, kRingBytes                 envelopes and small host messages
//     relay buffers                           pinned, pipelined: staged and host paths
//
// Everything is sparse, so a pair that never talks costs nothing. Pair parts are page-aligned: each rank pins
// only what it uses with its GPU. No pointers; fixed widths; kLayout changes with any of this.
//
// Who may write: each field names its writer. When a rank dies, the launcher marks it and poisons (poison_pairs).
#pragma once

#include "base/status.hpp"
#include "platform/shared_memory.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpurun::platform {

constexpr uint32_t kLayout = 1;
constexpr uint32_t kMaxRanks = 256;

// A fence counter that reads this or more has been poisoned: its writer died. GEQ waits for any real value
// (they stay far below) end at once. The low half is odd so that sleepers on it notice.
constexpr uint64_t kPoison = 0x4000'0000'ffff'ffff;

constexpr size_t kFenceSlots = 96;
constexpr size_t kRingBytes = 64 * 1024;
constexpr size_t kRelayBuffers = 4;
constexpr size_t kRelayBufferBytes = size_t{4} << 20;

struct JobHeader {
    uint32_t magic;
    uint32_t layout;
    uint32_t size;
    uint32_t cores;
};

enum class RankState : uint32_t { kStarting = 0, kAlive = 1, kFinalized = 2, kDead = 3 };

struct alignas(64) RankRecord {
    std::atomic<uint32_t> state;    // RankState; by the rank, kDead by the launcher
    std::atomic<uint32_t> doorbell; // by anyone: +1 and wake after publishing something for this rank
    std::atomic<uint32_t> sleepers; // by the rank: threads that sleep on the doorbell
    int32_t pid;                    // by the rank, before Ready
    // The rank's device, as bytes of device::Identity: by the rank, before Ready.
    std::array<std::byte, 32> device;
};
static_assert(sizeof(RankRecord) == 64);

struct PairControl {
    alignas(64) std::atomic<uint64_t> ring_tail; // bytes ever published; by the source
    alignas(64) std::atomic<uint64_t> ring_head; // bytes ever consumed; by the target
    std::atomic<uint64_t> eager_matched;         // bytes of eager payload ever delivered; by the target
    alignas(64) std::atomic<uint64_t> relay_filled;  // chunks ever enqueued; by the source
    alignas(64) std::atomic<uint64_t> relay_drained; // chunks ever enqueued; by the target
};
static_assert(sizeof(PairControl) == 256);

// `forward` is written by the source's side (stream or CPU) and awaited by the target's, `backward` the reverse.
struct FenceSlot {
    alignas(64) std::atomic<uint64_t> forward;
    alignas(64) std::atomic<uint64_t> backward;
};
static_assert(sizeof(FenceSlot) == 128);

// The event fence's IPC events: handles of `forward` by the source, of `backward` by the target. `ready` is set
// (release) after all handles of that direction are written.
struct EventHandles {
    alignas(64) std::atomic<uint32_t> forward_ready;
    alignas(64) std::atomic<uint32_t> backward_ready;
    std::byte forward[kFenceSlots][64];
    std::byte backward[kFenceSlots][64];
};

class JobSegment {
  public:
    // A new segment for `size` ranks (1 to kMaxRanks).
    static base::Result<JobSegment> create(uint32_t size, uint32_t cores);
    // Takes the descriptor of an existing one; kVersion if its layout is not ours.
    static base::Result<JobSegment> attach(UniqueFd fd);

    int fd() const { return fd_.get(); }
    uint32_t size() const { return header().size; }
    const JobHeader& header() const;
    RankRecord& rank(uint32_t rank) const;
    PairControl& control(uint32_t source, uint32_t target) const;

    // The parts of a pair, each a mapping of its own: they are pinned one by one and most are never touched.
    base::Result<Mapping> map_fences(uint32_t source, uint32_t target) const; // FenceSlot[kFenceSlots]
    base::Result<Mapping> map_events(uint32_t source, uint32_t target) const; // EventHandles
    base::Result<Mapping> map_ring(uint32_t source, uint32_t target) const;
    base::Result<Mapping> map_relay(uint32_t source, uint32_t target) const; // kRelayBuffers * kRelayBufferBytes

    // After publishing something that `rank` may be sleeping for. Costs a load when it is awake.
    void ring_doorbell(uint32_t rank) const;

    // Launcher: `rank` has ended without gpurun_finalize(). Marks it dead, poisons every fence that survivors
    // could be waiting for, wakes everybody.
    base::Result<void> mark_dead(uint32_t rank) const;

  private:
    JobSegment(UniqueFd fd, Mapping front) : fd_(std::move(fd)), front_(std::move(front)) {}

    UniqueFd fd_;
    Mapping front_; // header, rank records and pair controls
};

} // namespace gpurun::platform
