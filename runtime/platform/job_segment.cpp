#include "platform/job_segment.hpp"

#include "base/format.hpp"
#include "platform/process_state.hpp"
#include "platform/wake.hpp"
#include "platform/wire.hpp"

#include <cstring>
#include <numeric>

namespace gpurun::platform {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

constexpr size_t kFencesBytes = pages(kFenceSlots * sizeof(FenceSlot));
constexpr size_t kEventsBytes = pages(sizeof(EventHandles));
constexpr size_t kRelayBytes = kRelayBuffers * kRelayBufferBytes; // of a window
constexpr size_t kEagerBytes = kEagerBuffers * kEagerBufferBytes;

// Where the parts of a pair begin.
constexpr size_t kEventsOffset = kFencesBytes;
constexpr size_t kRingOffset = kEventsOffset + kEventsBytes;
constexpr size_t kEagerOffset = kRingOffset + kRingBytes;
constexpr size_t kRelayOffset = kEagerOffset + kEagerBytes;
constexpr size_t kPairBytes = kRelayOffset + kRelayWindows * kRelayBytes;

constexpr size_t places_offset(size_t size) { return kRecordsOffset + size * sizeof(RankRecord); }
constexpr size_t controls_offset(size_t size) {
    constexpr size_t kLine = alignof(PairControl);
    return (places_offset(size) + size * sizeof(uint32_t) + kLine - 1) / kLine * kLine;
}
constexpr size_t front_bytes(size_t size, size_t here) {
    return pages(controls_offset(size) + here * here * sizeof(PairControl));
}
constexpr size_t all_bytes(size_t size, size_t here) { return front_bytes(size, here) + here * here * kPairBytes; }

void poison(std::atomic<uint64_t>& counter) {
    counter.fetch_or(kPoison, std::memory_order_release);
    wake_all(counter);
}

void wake_by(std::atomic<uint32_t>& bell) {
    bell.fetch_add(1, std::memory_order_release);
    wake_all(bell);
}

} // namespace

base::Result<JobSegment> JobSegment::create(uint32_t size, uint32_t cores) {
    std::vector<uint32_t> places(size);
    std::iota(places.begin(), places.end(), 0);
    return make(std::move(places), size, cores);
}

base::Result<JobSegment> JobSegment::create(std::span<const uint32_t> nodes, uint32_t here, uint32_t cores) {
    std::vector<uint32_t> places;
    uint32_t number = 0;
    for (const uint32_t node : nodes)
        places.push_back(node == here ? number++ : kElsewhere);
    GPURUN_ASSIGN(JobSegment segment, make(std::move(places), number, cores));
    for (uint32_t rank = 0; rank < nodes.size(); ++rank)
        segment.rank(rank).node = nodes[rank];
    return segment;
}

base::Result<JobSegment> JobSegment::make(std::vector<uint32_t> places, uint32_t here, uint32_t cores) {
    const auto size = static_cast<uint32_t>(places.size());
    GPURUN_ASSERT(here >= 1 && here <= kMaxRanks && size <= kMaxJobRanks);
    GPURUN_ASSIGN(UniqueFd fd, create_segment("gpurun-job", all_bytes(size, here)));
    GPURUN_ASSIGN(Mapping front, Mapping::map(fd.get(), 0, front_bytes(size, here)));
    *reinterpret_cast<JobHeader*>(front.data()) = JobHeader{wire::kMagic, kLayout, size, cores, here};
    std::memcpy(front.data() + places_offset(size), places.data(), size * sizeof(uint32_t));
    return JobSegment(std::move(fd), std::move(front), std::move(places), here);
}

base::Result<JobSegment> JobSegment::attach(UniqueFd fd) {
    GPURUN_ASSIGN(const size_t bytes, segment_size(fd.get()));
    if (bytes < kPage)
        return base::error(base::Status::kLauncher, "the job's shared segment has {} bytes; start again", bytes);
    JobHeader header{};
    {
        GPURUN_ASSIGN(Mapping first, Mapping::map(fd.get(), 0, kPage));
        header = *reinterpret_cast<const JobHeader*>(first.data());
    }
    const auto [magic, layout, size, cores, here] = header;
    if (magic != wire::kMagic || layout != kLayout || size < 1 || size > kMaxJobRanks || here < 1 || here > kMaxRanks)
        return base::error(base::Status::kVersion,
                           "the job's shared segment has layout {}, this library layout {}: start the program with "
                           "the gpurun that belongs to its library",
                           layout, kLayout);
    if (bytes != all_bytes(size, here))
        return base::error(base::Status::kLauncher, "the job's shared segment has {} bytes; start again", bytes);
    GPURUN_ASSIGN(Mapping front, Mapping::map(fd.get(), 0, front_bytes(size, here)));
    std::vector<uint32_t> places(size);
    std::memcpy(places.data(), front.data() + places_offset(size), size * sizeof(uint32_t));
    for (const uint32_t place : places)
        if (place >= here && place != kElsewhere)
            return base::error(base::Status::kLauncher, "the job's shared segment is damaged; start again");
    return JobSegment(std::move(fd), std::move(front), std::move(places), here);
}

PairControl& JobSegment::control(uint32_t source, uint32_t target) const {
    GPURUN_ASSERT(is_here(source) && is_here(target));
    auto* controls = reinterpret_cast<PairControl*>(front_.data() + controls_offset(size()));
    // Most of it is for the target to write: keep that of all its sources together.
    return controls[places_[target] * here_ + places_[source]];
}

size_t JobSegment::pair_offset(uint32_t source, uint32_t target) const {
    GPURUN_ASSERT(is_here(source) && is_here(target));
    return front_bytes(size(), here_) + (size_t{places_[source]} * here_ + places_[target]) * kPairBytes;
}

base::Result<Mapping> JobSegment::map_fences(uint32_t source, uint32_t target) const {
    return Mapping::map(fd(), pair_offset(source, target), kFencesBytes);
}

base::Result<Mapping> JobSegment::map_events(uint32_t source, uint32_t target) const {
    return Mapping::map(fd(), pair_offset(source, target) + kEventsOffset, kEventsBytes);
}

base::Result<Mapping> JobSegment::map_ring(uint32_t source, uint32_t target) const {
    return Mapping::map(fd(), pair_offset(source, target) + kRingOffset, kRingBytes);
}

base::Result<Mapping> JobSegment::map_eager(uint32_t source, uint32_t target) const {
    return Mapping::map(fd(), pair_offset(source, target) + kEagerOffset, kEagerBytes);
}

base::Result<Mapping> JobSegment::map_relay(uint32_t source, uint32_t target, uint32_t window) const {
    GPURUN_ASSERT(window < kRelayWindows);
    return Mapping::map(fd(), pair_offset(source, target) + kRelayOffset + window * kRelayBytes, kRelayBytes);
}

void JobSegment::choose_bells() {
    light_bells_ = here_ <= header().cores; // else ranks sleep all the time
    for_each_here([&](uint32_t each) { light_bells_ = light_bells_ && rank(each).heavy_fences != 0; });
}

// Either the caller sees a sleeper, or the sleeper's last look before sleeping sees what the caller published. For that
// each side's store has to come before its load: by a read-modify-write on both sides, or, for what is small and
// frequent, by the sleeper's heavy fence alone. Attendants come and go too often for that: where they matter, they are
// read by a read-modify-write, as they announce themselves.
void JobSegment::ring_doorbell(uint32_t target, Notify notify) const {
    RankRecord& record = rank(target);
    if (notify == Notify::kIfSleeping && is_awake(record))
        return;
    const uint64_t there = record.presence.fetch_add(0, std::memory_order_acq_rel);
    if ((there & presence::kSleepers) != 0)
        wake_by(record.doorbell);
    const bool concerns = notify == Notify::kAlways || (there & presence::kUrgent) != 0;
    if (concerns && (there & presence::kBackground) != 0 && (there & presence::kAttendants) == 0)
        wake_by(record.background_bell);
}

void JobSegment::announce(uint32_t sleeper, uint64_t presence) const {
    rank(sleeper).presence.fetch_add(presence, std::memory_order_acq_rel);
    if (light_bells_)
        heavy_fence();
}

// Who is leaving, too, passes a step once the last has come to it, so only the last one wakes it. Of two that come at
// once, one sees the other's step.
void JobSegment::tell_steps(uint32_t told, uint32_t steps) const {
    rank(told).steps_told.store(steps, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    bool last = true;
    for (uint32_t each = 0; last && each < size(); ++each)
        last = rank(each).steps_told.load(std::memory_order_relaxed) >= steps ||
               rank(each).state.load(std::memory_order_relaxed) >= static_cast<uint32_t>(RankState::kFinalized);
    for_each_here([&](uint32_t each) {
        if (last || rank(each).leaving.load(std::memory_order_relaxed) == 0)
            ring_doorbell(each, Notify::kAlways);
    });
}

void JobSegment::mark_finalized(uint32_t left) const {
    rank(left).state.store(static_cast<uint32_t>(RankState::kFinalized), std::memory_order_release);
    for_each_here([&](uint32_t peer) { ring_doorbell(peer, Notify::kAlways); });
}

base::Result<void> JobSegment::mark_unwatched(uint32_t lost) const {
    const auto state = static_cast<RankState>(rank(lost).state.load(std::memory_order_acquire));
    if (state == RankState::kDead)
        return {};
    if (state != RankState::kDying) // else another one began to mark it, and may have ended meanwhile
        rank(lost).unwatched.store(1, std::memory_order_relaxed); // mark_dead() publishes it
    return mark_dead(lost);
}

bool JobSegment::may_live(uint32_t lost) const {
    const RankRecord& record = rank(lost);
    return record.unwatched.load(std::memory_order_relaxed) != 0 && !has_ended(record.pid, record.started);
}

base::Result<void> JobSegment::mark_dead(uint32_t dead) const {
    // Pairs, through the poison (release) and whatever that releases, with the acquire in ShmChannel::liveness(). What
    // is marked already, by another process, is not seen to live again.
    uint32_t state = rank(dead).state.load(std::memory_order_relaxed);
    while (state < static_cast<uint32_t>(RankState::kDying) &&
           !rank(dead).state.compare_exchange_weak(state, static_cast<uint32_t>(RankState::kDying),
                                                   std::memory_order_release, std::memory_order_relaxed)) {
    }
    base::Result<void> result;
    for (uint32_t peer = 0; is_here(dead) && peer < size(); ++peer) {
        if (peer == dead || !is_here(peer))
            continue;
        auto from_dead = map_fences(dead, peer);
        auto to_dead = map_fences(peer, dead);
        if (!from_dead || !to_dead) { // out of memory: the others must learn of the death all the same
            result = std::move(!from_dead ? from_dead : to_dead).error();
            continue;
        }
        for (size_t i = 0; i < kFenceSlots; ++i) {
            poison(reinterpret_cast<FenceSlot*>(from_dead->data())[i].forward);
            poison(reinterpret_cast<FenceSlot*>(to_dead->data())[i].backward);
        }
    }
    // Last (release): who sees the state sees the poison, and can tell what was cut short.
    rank(dead).state.store(static_cast<uint32_t>(RankState::kDead), std::memory_order_release);
    for_each_here([&](uint32_t peer) {
        wake_by(rank(peer).doorbell);
        wake_by(rank(peer).background_bell);
        wake_by(rank(peer).death_bell);
    });
    return result;
}

} // namespace gpurun::platform
