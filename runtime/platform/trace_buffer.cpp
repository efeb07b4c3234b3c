#include "platform/trace_buffer.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <limits>
#include <unistd.h>

namespace gpurun::platform {

using base::Result;

constinit thread_local TraceBuffer::Thread TraceBuffer::thread_;

namespace {

size_t whole_pages(size_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }
size_t timed_offset(uint64_t events) { return whole_pages(kTraceHeaderBytes + events * sizeof(TraceEvent)); }

} // namespace

TraceBuffer::TraceBuffer(UniqueFd fd, Mapping mapping, uint64_t capacity, uint64_t timed_capacity)
    : fd_(std::move(fd)), mapping_(std::move(mapping)), capacity_(capacity), timed_capacity_(timed_capacity),
      timed_offset_(timed_offset(capacity)) {}

Result<TraceBuffer> TraceBuffer::create(uint64_t events, uint64_t timed) {
    CHECK(events > 0 && events <= kMostEvents && timed <= kMostEvents);
    const size_t bytes = timed_offset(events) + whole_pages(timed * sizeof(TraceTimes));
    GPURUN_ASSIGN(UniqueFd fd, create_segment("gpurun-trace", bytes));
    GPURUN_ASSIGN(Mapping mapping, Mapping::map(fd.get(), 0, bytes));
    TraceBuffer buffer(std::move(fd), std::move(mapping), events, timed);
    buffer.header().magic = kTraceMagic;
    buffer.header().layout = kTraceLayout;
    buffer.header().capacity = events;
    buffer.header().timed_capacity = timed;
    return buffer;
}

Result<TraceBuffer> TraceBuffer::attach(UniqueFd fd) {
    GPURUN_ASSIGN(const size_t size, segment_size(fd.get()));
    const auto not_ours = [] {
        return base::error(base::Status::kVersion, "gpurun records traces in another way than this library: start the "
                                                   "program with the gpurun that belongs to its library");
    };
    if (size < kTraceHeaderBytes || size % page_size() != 0)
        return not_ours();
    GPURUN_ASSIGN(Mapping mapping, Mapping::map(fd.get(), 0, size));
    const auto& header = *reinterpret_cast<const TraceHeader*>(mapping.data());
    const uint64_t capacity = header.capacity;
    const uint64_t timed = header.timed_capacity;
    if (header.magic != kTraceMagic || header.layout != kTraceLayout || capacity > kMostEvents || timed > kMostEvents ||
        timed_offset(capacity) + whole_pages(timed * sizeof(TraceTimes)) != size)
        return not_ours();
    TraceBuffer buffer(std::move(fd), std::move(mapping), capacity, timed);
    GPURUN_ASSIGN(buffer.pages_, PagesAhead::start(buffer.mapping_.data(), buffer.timed_offset_));
    return buffer;
}

void TraceBuffer::announce_thread() {
    constexpr uint32_t kMost = std::numeric_limits<uint16_t>::max(); // those beyond share a number
    const uint32_t number = std::min(header().threads.fetch_add(1, std::memory_order_relaxed) + 1, kMost);
    thread_ = Thread{this, static_cast<uint16_t>(number), nullptr};
    TraceEvent* event = take();
    if (event == nullptr)
        return;
    event->thread = thread_.number;
    event->begin_ns = now_ns();
    event->ordinal = static_cast<uint64_t>(::gettid());
    publish(*event, TraceKind::kThread);
}

uint64_t TraceBuffer::recorded() const { return std::min(header().taken.load(std::memory_order_acquire), capacity_); }

uint64_t TraceBuffer::lost() const { return header().taken.load(std::memory_order_acquire) - recorded(); }

std::span<const TraceTimes> TraceBuffer::times() const {
    return {all_times(), std::min(header().timed.load(std::memory_order_acquire), timed_capacity_)};
}

uint64_t TraceBuffer::untimed() const { return header().timed.load(std::memory_order_acquire) - times().size(); }

const TraceEvent* TraceBuffer::event(uint64_t index) const {
    CHECK(index < recorded());
    const TraceEvent& event = events()[index];
    const uint8_t kind = event.kind.load(std::memory_order_acquire);
    return kind == 0 || kind >= kTraceKinds ? nullptr : &event;
}

} // namespace gpurun::platform
