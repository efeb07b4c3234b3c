#include "transfer/probe.hpp"

#include "base/log.hpp"

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

// Memory for one trial, released whatever happens.
struct Trial {
    device::Device& device;
    Streams* streams; // null before there are any
    device::Stream stream{};
    void* pinned = nullptr;
    void* local = nullptr;
    void* imported = nullptr;

    Result<void> take() {
        GPURUN_ASSIGN(stream, streams != nullptr ? streams->brief() : device.create_stream());
        GPURUN_ASSIGN(pinned, device.allocate_pinned(kProbeBytes));
        GPURUN_ASSIGN(local, device.allocate(kProbeBytes));
        return {};
    }
    ~Trial() {
        if (imported != nullptr)
            (void)device.close_memory(imported); // nothing to do about a device that fails here
        if (local != nullptr)
            (void)device.free(local);
        if (pinned != nullptr)
            (void)device.free_pinned(pinned);
        if (streams == nullptr && stream.native != nullptr)
            (void)device.destroy_stream(stream);
    }
};

Result<bool> trial_copy(Context& context, uint32_t peer) {
    const platform::RankRecord& record = context.job.rank(peer);
    if (record.has_probe == 0)
        return false;
    Trial trial{context.device, &context.streams};
    GPURUN_TRY(trial.take());
    device::MemoryHandle handle;
    std::memcpy(handle.bytes.data(), record.probe.data(), record.probe.size());
    GPURUN_ASSIGN(trial.imported, context.device.import_memory(static_cast<int>(peer), handle));
    GPURUN_TRY(context.device.copy(trial.local, trial.imported, kProbeBytes, trial.stream));
    GPURUN_TRY(context.device.copy(trial.pinned, trial.local, kProbeBytes, trial.stream));
    GPURUN_TRY(context.device.synchronize(trial.stream));
    const Pattern expected = pattern_of(peer);
    return std::memcmp(trial.pinned, expected.data(), kProbeBytes) == 0;
}

} // namespace

Result<Probe> Probe::publish(device::Device& device, platform::RankRecord& record, uint32_t rank) {
    static_assert(sizeof(device::Identity) <= sizeof record.device &&
                  sizeof(device::MemoryHandle) == sizeof record.probe);
    std::memcpy(record.device.data(), &device.info().identity, sizeof(device::Identity));
    GPURUN_ASSIGN(void* memory, device.allocate(kProbeBytes));
    Probe probe(device, memory);
    Trial trial{device, nullptr};
    GPURUN_TRY(trial.take());
    const Pattern pattern = pattern_of(rank);
    std::memcpy(trial.pinned, pattern.data(), kProbeBytes);
    GPURUN_TRY(device.copy(memory, trial.pinned, kProbeBytes, trial.stream));
    GPURUN_TRY(device.synchronize(trial.stream));
    GPURUN_ASSIGN(const device::Buffer buffer, device.describe(memory, kProbeBytes));
    if (buffer.exportable) {
        GPURUN_ASSIGN(const device::MemoryHandle handle, device.export_memory(buffer));
        std::memcpy(record.probe.data(), handle.bytes.data(), record.probe.size());
        record.has_probe = 1;
    }
    return probe;
}

Probe::~Probe() {
    if (memory_ != nullptr)
        (void)device_.free(memory_); // goes with the process otherwise
}

device::Identity peer_identity(const platform::RankRecord& record) {
    device::Identity identity;
    std::memcpy(&identity, record.device.data(), sizeof identity);
    return identity;
}

base::Result<bool> can_write(Context& context, std::byte* imported) {
    Trial trial{context.device, &context.streams};
    GPURUN_TRY(trial.take());
    const Pattern pattern = pattern_of(context.rank);
    std::memcpy(trial.pinned, pattern.data(), kProbeBytes);
    GPURUN_TRY(context.device.copy(imported, trial.pinned, kProbeBytes, trial.stream));
    GPURUN_TRY(context.device.copy(trial.local, imported, kProbeBytes, trial.stream));
    GPURUN_TRY(context.device.copy(trial.pinned, trial.local, kProbeBytes, trial.stream));
    GPURUN_TRY(context.device.synchronize(trial.stream));
    const bool same = std::memcmp(trial.pinned, pattern.data(), kProbeBytes) == 0;
    std::memset(trial.pinned, 0, kProbeBytes);
    GPURUN_TRY(context.device.copy(imported, trial.pinned, kProbeBytes, trial.stream));
    GPURUN_TRY(context.device.synchronize(trial.stream));
    return same;
}

Choice find_reach(Context& context, uint32_t peer) {
    const device::Identity identity = peer_identity(context.job.rank(peer));
    if (auto reachable = context.device.can_reach(identity); !reachable)
        return {Path::kStaged, Reason::kNoPeerAccess};
    auto works = trial_copy(context, peer);
    if (!works || !*works) {
        base::log(base::LogLevel::kWarn, "direct copies from rank {}'s device do not work ({}): messages are staged",
                  peer, works ? "a test copy arrived changed" : works.error().detail);
        return {Path::kStaged, Reason::kProbeFailed};
    }
    const device::Identity& own = context.device.info().identity;
    return {Path::kDirect, identity.uuid == own.uuid ? Reason::kSameDevice : Reason::kPeerAccess};
}

} // namespace gpurun::transfer
