#include "transfer/memory/reach.hpp"

#include "base/log.hpp"

#include <array>
#include <cstring>

namespace gpurun::transfer {

using base::Result;

namespace {

constexpr size_t kProbeBytes = 4096;
using Pattern = std::array<uint8_t, kProbeBytes>;

Pattern pattern_of(uint32_t rank) {
    Pattern pattern;
    uint32_t state = rank * 2654435761u + 1;
    for (uint8_t& byte : pattern) {
        state = state * 1664525u + 1013904223u;
        byte = static_cast<uint8_t>(state >> 24);
    }
    return pattern;
}

// Memory for one trial, released whatever happens. Once there are streams, messages may be under way, and nothing may
// wait for the device: what was allocated is freed later.
struct Trial {
    device::Device& device;
    InternalStreams* streams; // null before there are any
    device::Stream stream{};
    void* pinned = nullptr;
    void* local = nullptr;

    Result<void> take() {
        GPURUN_ASSIGN(stream, streams != nullptr ? streams->brief() : device.create_stream());
        GPURUN_ASSIGN(pinned, device.allocate_pinned(kProbeBytes));
        GPURUN_ASSIGN(local, device.allocate(kProbeBytes));
        return {};
    }
    ~Trial() {
        if (streams != nullptr) { // nothing to do about a device that fails here
            (void)device.free_later(local);
            (void)device.free_later(pinned);
            return;
        }
        if (local != nullptr)
            (void)device.free(local);
        if (pinned != nullptr)
            (void)device.free_pinned(pinned);
        if (stream.native != nullptr)
            (void)device.destroy_stream(stream);
    }
};

Result<bool> trial_copy(device::Device& device, InternalStreams& streams, const PeerChannel& channel, void*& imported) {
    if (!channel.facts().probe)
        return false;
    Trial trial{device, &streams};
    GPURUN_TRY(trial.take());
    GPURUN_ASSIGN(imported, device.import_memory(channel.device_peer(), *channel.facts().probe));
    GPURUN_TRY(device.copy(trial.local, imported, kProbeBytes, trial.stream));
    GPURUN_TRY(device.copy(trial.pinned, trial.local, kProbeBytes, trial.stream));
    GPURUN_TRY(device.synchronize(trial.stream));
    const Pattern expected = pattern_of(channel.peer().value);
    return std::memcmp(trial.pinned, expected.data(), kProbeBytes) == 0;
}

} // namespace

Result<Probe> Probe::publish(device::Device& device, uint32_t rank, RankFacts& facts) {
    facts.device = device.info().identity;
    GPURUN_ASSIGN(void* const memory, device.allocate(kProbeBytes));
    Probe probe(device, memory);
    Trial trial{device, nullptr};
    GPURUN_TRY(trial.take());
    const Pattern pattern = pattern_of(rank);
    std::memcpy(trial.pinned, pattern.data(), kProbeBytes);
    GPURUN_TRY(device.copy(memory, trial.pinned, kProbeBytes, trial.stream));
    GPURUN_TRY(device.synchronize(trial.stream));
    GPURUN_ASSIGN(const device::Buffer buffer, device.describe(memory, kProbeBytes));
    if (buffer.exportable) {
        GPURUN_ASSIGN(facts.probe, device.export_memory(buffer));
    }
    return probe;
}

Probe::~Probe() {
    if (memory_ != nullptr)
        (void)device_.free(memory_); // goes with the process otherwise
}

Result<bool> can_write(device::Device& device, InternalStreams& streams, uint32_t rank, std::byte* imported) {
    Trial trial{device, &streams};
    GPURUN_TRY(trial.take());
    const Pattern pattern = pattern_of(rank);
    std::memcpy(trial.pinned, pattern.data(), kProbeBytes);
    GPURUN_TRY(device.copy(imported, trial.pinned, kProbeBytes, trial.stream));
    GPURUN_TRY(device.copy(trial.local, imported, kProbeBytes, trial.stream));
    GPURUN_TRY(device.copy(trial.pinned, trial.local, kProbeBytes, trial.stream));
    GPURUN_TRY(device.synchronize(trial.stream));
    const bool same = std::memcmp(trial.pinned, pattern.data(), kProbeBytes) == 0;
    std::memset(trial.pinned, 0, kProbeBytes);
    GPURUN_TRY(device.copy(imported, trial.pinned, kProbeBytes, trial.stream));
    GPURUN_TRY(device.synchronize(trial.stream));
    return same;
}

Reach find_reach(device::Device& device, InternalStreams& streams, const PeerChannel& channel, void*& ret_probe) {
    const device::Identity& identity = channel.facts().device;
    if (auto reachable = device.can_reach(identity); !reachable)
        return Reach::kNoPeerAccess;
    auto works = trial_copy(device, streams, channel, ret_probe);
    if (!works || !*works) {
        base::log(base::LogLevel::kWarn, "direct copies from rank {}'s device do not work ({}): messages are staged",
                  channel.peer().value, works ? "a test copy arrived changed" : works.error().detail);
        return Reach::kProbeFailed;
    }
    return identity.uuid == device.info().identity.uuid ? Reach::kSameDevice : Reach::kPeerAccess;
}

} // namespace gpurun::transfer
