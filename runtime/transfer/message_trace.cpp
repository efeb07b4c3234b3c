#include "transfer/message_trace.hpp"

#include "base/log.hpp"

#include <algorithm>
#include <limits>

namespace gpurun::transfer {

namespace flags = platform::trace_flags;
using platform::TraceEvent;

void MessageTrace::start(platform::TraceBuffer& buffer, const Begin& what, const Envelope& envelope,
                         const Operand& operand, Ending ending) {
    uint32_t marks = what.marks;
    event_ = what.call;
    if (event_ != nullptr)
        marks |= flags::kIsCall;
    else if (event_ = buffer.begin(); event_ == nullptr)
        return;
    if (operand.on_stream())
        marks |= flags::kOnStream;
    if (operand.captured())
        marks |= flags::kCaptured;
    if (ending == Ending::kByCompletion)
        marks |= flags::kRequest;
    event_->how.store(marks, std::memory_order_relaxed);
    event_->tag = envelope.tag;
    event_->peer = what.peer;
    event_->context = envelope.context & ~kCapturedContexts;
    event_->bytes = envelope.bytes;
    platform::TraceBuffer::publish(*event_, what.kind);
}

void MessageTrace::sent_at_once(platform::TraceBuffer& buffer, TraceEvent* call, base::WorldRank peer,
                                const Envelope& envelope, Route route, uint64_t ordinal, int64_t begin_ns) {
    TraceEvent* event = call;
    uint32_t marks = flags::kIsCall;
    if (event == nullptr) {
        event = buffer.begin();
        if (event == nullptr)
            return;
        event->end_ns.store(event->begin_ns, std::memory_order_relaxed);
        event->begin_ns = begin_ns;
        marks = 0;
    }
    event->how.store(bits_of(route) | flags::kHasOrdinal | marks, std::memory_order_relaxed);
    event->tag = envelope.tag;
    event->peer = static_cast<int32_t>(peer.value);
    event->context = envelope.context;
    event->bytes = envelope.bytes;
    event->ordinal = ordinal;
    platform::TraceBuffer::publish(*event, platform::TraceKind::kSend);
}

void MessageTrace::note_posting() {
    const int64_t after_ns = platform::now_ns() - event_->begin_ns;
    constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
    event_->posted_after_ns.store(static_cast<uint32_t>(std::min(after_ns, kMost)), std::memory_order_relaxed);
}

void MessageTrace::note_matched(base::WorldRank source, const Envelope& envelope, uint64_t ordinal, size_t room) {
    event_->peer = static_cast<int32_t>(source.value);
    event_->tag = envelope.tag;
    event_->context = envelope.context & ~kCapturedContexts;
    event_->bytes = envelope.bytes;
    event_->ordinal = ordinal;
    set(flags::kHasOrdinal | (envelope.bytes > room ? flags::kTruncated : 0));
    event_->matched_ns.store(platform::now_ns(), std::memory_order_relaxed);
}

namespace {

// A word that reads 0. It goes with the process: freeing it could wait for the device.
base::Result<uint64_t*> make_count(device::Device& device) {
    GPURUN_ASSIGN(void* const memory, device.allocate(sizeof(uint64_t)));
    GPURUN_TRY(device.fill(memory, 0, sizeof(uint64_t), {}));
    GPURUN_TRY(device.synchronize(device::Stream{}));
    return static_cast<uint64_t*>(memory);
}

base::Result<uint64_t> read_count(device::Device& device, const uint64_t* count) {
    GPURUN_ASSIGN(void* const here, device.allocate_pinned(sizeof(uint64_t)));
    auto copied = device.copy(here, count, sizeof(uint64_t), {});
    if (copied)
        copied = device.synchronize(device::Stream{});
    const uint64_t value = *static_cast<const uint64_t*>(here);
    GPURUN_TRY(device.free_pinned(here));
    GPURUN_TRY(std::move(copied));
    return value;
}

base::Result<device::RunLog> open_log(platform::TraceBuffer& buffer, device::Device& device) {
    const platform::TraceBuffer::Runs runs = buffer.runs_of_rank();
    if (runs.capacity == 0)
        return device::RunLog{};
    GPURUN_ASSIGN(uint64_t* const taken, make_count(device));
    return device::RunLog{taken, runs.first, runs.capacity, &runs.header->lost};
}

} // namespace

device::RunLog time_messages(platform::TraceBuffer& buffer, device::Device& device) {
    const std::span<std::byte> memory = buffer.timed_memory();
    if (memory.empty())
        return {};
    if (device.clock() == nullptr) {
        base::log(base::LogLevel::kWarn, "the trace has no times of the device: {} has no clock", device.info().name);
        return {};
    }
    auto clock = device.clock()->read_clock();
    auto usable = clock ? device.register_host(memory.data(), memory.size()) : clock.error();
    if (!usable) {
        base::log(base::LogLevel::kWarn, "the trace has no times of the device: {}", usable.error().detail);
        return {};
    }
    buffer.header().clocks[0] = *clock;
    buffer.time_messages();
    auto runs = open_log(buffer, device);
    if (runs)
        return *runs;
    base::log(base::LogLevel::kWarn, "the trace has no runs of messages of graphs: {}", runs.error().detail);
    return {};
}

void note_last_times(platform::TraceBuffer& buffer, device::Device& device, const device::RunLog& runs) {
    if (buffer.header().clocks[0].host_ns == 0)
        return;
    if (auto clock = device.clock()->read_clock())
        buffer.header().clocks[1] = *clock;
    else
        base::log(base::LogLevel::kWarn, "times of the device in the trace may be off: {}", clock.error().detail);
    if (runs.taken == nullptr || runs.lost->load(std::memory_order_relaxed) == 0)
        return;
    if (auto taken = read_count(device, runs.taken))
        runs.lost->store(*taken - std::min(*taken, runs.room), std::memory_order_relaxed);
}

} // namespace gpurun::transfer
