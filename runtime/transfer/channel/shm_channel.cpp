#include "transfer/channel/shm_channel.hpp"

#include "platform/process_state.hpp"
#include "transfer/channel/gpu_sharing.hpp"
#include "transfer/channel/rank_facts.hpp"

#include <cstring>
#include <utility>

namespace gpurun::transfer {

using base::Result;
using platform::RankState;

namespace {

using HandleBytes = decltype(platform::RankRecord::probe);
static_assert(sizeof(HandleBytes) == sizeof(device::MemoryHandle) &&
              std::is_same_v<HandleBytes, decltype(platform::RankRecord::workspace)>);

void write_handle(const std::optional<device::MemoryHandle>& handle, HandleBytes& bytes, auto& is_there) {
    is_there = handle ? 1 : 0;
    if (handle)
        std::memcpy(bytes.data(), handle->bytes.data(), bytes.size());
}

std::optional<device::MemoryHandle> read_handle(const HandleBytes& bytes, bool is_there) {
    std::optional<device::MemoryHandle> handle;
    if (is_there)
        std::memcpy(handle.emplace().bytes.data(), bytes.data(), bytes.size());
    return handle;
}

RankFacts read_facts(const platform::RankRecord& record) {
    RankFacts facts = common_facts(record);
    facts.probe = read_handle(record.probe, record.has_probe != 0);
    facts.workspace = read_handle(record.workspace, record.has_mailboxes != 0);
    return facts;
}

} // namespace

void ShmChannel::publish(platform::RankRecord& own, const RankFacts& facts) {
    publish_common_facts(own, facts);
    write_handle(facts.probe, own.probe, own.has_probe);
    write_handle(facts.workspace, own.workspace, own.has_mailboxes);
}

Result<std::unique_ptr<PeerChannel>> ShmChannel::open(device::Device& device, const platform::JobSegment& job,
                                                      base::WorldRank self, base::WorldRank peer,
                                                      const Options& options) {
    GPURUN_ASSIGN(platform::Mapping out_ring, job.map_ring(self.value, peer.value));
    GPURUN_ASSIGN(platform::Mapping in_ring, job.map_ring(peer.value, self.value));
    return std::unique_ptr<PeerChannel>(
        new ShmChannel(device, job, self, peer, options, std::move(out_ring), std::move(in_ring)));
}

ShmChannel::ShmChannel(device::Device& device, const platform::JobSegment& job, base::WorldRank self,
                       base::WorldRank peer, const Options& options, platform::Mapping out_ring,
                       platform::Mapping in_ring)
    : PeerChannel(peer, self == peer, options.first_device_peer), device_(device), job_(job), self_(self),
      counters_(options.events ? nullptr : device.counters()), record_(job.rank(peer.value)),
      facts_(read_facts(record_)), out_ring_(std::move(out_ring)), in_ring_(std::move(in_ring)),
      producer_(job.control(self.value, peer.value), out_ring_.data()),
      consumer_(job.control(peer.value, self.value), in_ring_.data()) {
    halves_[0].control = &job.control(self.value, peer.value);
    halves_[1].control = &job.control(peer.value, self.value);
    facts_.takes_turns = transfer::takes_turns(job, options.mps, peer.value);
}

ShmChannel::~ShmChannel() {
    const auto unpin = [&](Part& part) {
        if (part.pinned)
            (void)device_.unregister_host(part.mapping.data()); // a failed device keeps it
    };
    for (Half& each : halves_) {
        each.fence.reset();
        unpin(each.fences);
        unpin(each.eager);
        for (Part& window : each.relay)
            unpin(window);
    }
}

Liveness ShmChannel::liveness() const {
    const auto state = static_cast<RankState>(record_.state.load(std::memory_order_acquire));
    return state == RankState::kDead    ? Liveness::kDead
           : state == RankState::kDying ? Liveness::kDying
                                        : Liveness::kAlive;
}

bool ShmChannel::has_ended() const {
    ended_ = ended_ || platform::has_ended(record_.pid, record_.started);
    return ended_;
}

// The records that fill the ring may have been posted with kIfSleeping, so a peer that computes has to be notified.
bool ShmChannel::post(const Record& record, std::span<const std::byte> payload, Notify how) {
    const bool was_full = std::exchange(full_, !producer_.push(record, payload));
    if (full_ && !was_full)
        notify(Notify::kAlways);
    if (!full_)
        notify(how);
    return !full_;
}

bool ShmChannel::post_few(ProtocolId protocol, const Envelope& envelope, const std::byte* payload, uint64_t signature) {
    if (!producer_.push_short(protocol, envelope, payload, signature))
        return false;
    if (!job_.is_awake(record_))
        notify(Notify::kIfSleeping);
    return true;
}

// The same as the channel's own, without a virtual call at each step: a fifth of what a small message costs its
// receiver.
void ShmChannel::poll(Sink sink) {
    while (const Record* const record = consumer_.front()) {
        sink(*record, consumer_.payload());
        consumer_.pop();
    }
    tell_of_room();
}

Result<void> ShmChannel::pin(Part& part) {
    if (part.pinned)
        return {};
    GPURUN_TRY(device_.register_host(part.mapping.data(), part.mapping.size()));
    part.pinned = true;
    return {};
}

// Always pinned: a stream waits for an edge, even for one that only CPUs signal, when a thread sleeps for it (an
// alarm).
Result<Fence*> ShmChannel::fence(Direction direction) {
    Half& of = half(direction);
    if (!of.fence) {
        GPURUN_ASSIGN(of.fences.mapping, job_.map_fences(source(direction), target(direction)));
        auto* const slots = reinterpret_cast<platform::FenceSlot*>(of.fences.mapping.data());
        GPURUN_TRY(pin(of.fences));
        if (counters_ == nullptr) {
            GPURUN_ASSIGN(of.events, job_.map_events(source(direction), target(direction)));
            const Side side = to_self() ? Side::kBoth : direction == Direction::kOut ? Side::kSource : Side::kTarget;
            of.fence = make_event_fence(device_, slots, reinterpret_cast<platform::EventHandles*>(of.events.data()),
                                        side, device_peer());
        } else {
            of.fence = make_counter_fence(*counters_, slots);
        }
    }
    return of.fence.get();
}

Result<std::byte*> ShmChannel::eager_buffer(Direction direction, uint32_t index, bool for_streams) {
    Part& part = half(direction).eager;
    if (part.mapping.data() == nullptr) {
        GPURUN_ASSIGN(part.mapping, job_.map_eager(source(direction), target(direction)));
    }
    if (for_streams)
        GPURUN_TRY(pin(part));
    return part.mapping.data() + index * platform::kEagerBufferBytes;
}

Result<std::byte*> ShmChannel::relay_buffer(Direction direction, uint32_t window, uint32_t index, bool for_streams) {
    Part& part = half(direction).relay[window];
    if (part.mapping.data() == nullptr) {
        GPURUN_ASSIGN(part.mapping, job_.map_relay(source(direction), target(direction), window));
    }
    if (for_streams)
        GPURUN_TRY(pin(part));
    return part.mapping.data() + index * platform::kRelayBufferBytes;
}

bool ShmChannel::Memory::is_readable() {
    if (!readable_)
        readable_ = is_still_readable();
    return *readable_;
}

bool ShmChannel::Memory::is_still_readable() const {
    return platform::can_read_peer(channel_.record_.pid, channel_.record_.token);
}

Result<void> ShmChannel::Memory::read(void* destination, uint64_t source, size_t bytes) const {
    return platform::read_peer(channel_.record_.pid, destination, source, bytes);
}

Result<void> ShmChannel::Memory::write(uint64_t destination, const void* source, size_t bytes) const {
    return platform::write_peer(channel_.record_.pid, destination, source, bytes);
}

} // namespace gpurun::transfer
