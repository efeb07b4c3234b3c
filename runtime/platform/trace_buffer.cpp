#include "platform/trace_buffer.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <limits>
#include <unistd.h>

namespace gpurun::platform {

using base::Result;

constinit thread_local TraceBuffer::Thread TraceBuffer::thread_;

Result<TraceBuffer> TraceBuffer::create(uint64_t events) {
    CHECK(events > 0 && events <= kMostEvents);
    const size_t bytes = kTraceHeaderBytes + events * sizeof(TraceEvent);
    const size_t whole_pages = (bytes + page_size() - 1) / page_size() * page_size();
    GPURUN_ASSIGN(UniqueFd fd, create_segment("gpurun-trace", whole_pages));
    GPURUN_ASSIGN(Mapping mapping, Mapping::map(fd.get(), 0, whole_pages));
    TraceBuffer buffer(std::move(fd), std::move(mapping), events);
    buffer.header().magic = kTraceMagic;
    buffer.header().layout = kTraceLayout;
    buffer.header().capacity = events;
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
    if (header.magic != kTraceMagic || header.layout != kTraceLayout ||
        capacity > (size - kTraceHeaderBytes) / sizeof(TraceEvent))
        return not_ours();
    TraceBuffer buffer(std::move(fd), std::move(mapping), capacity);
    GPURUN_ASSIGN(buffer.pages_, PagesAhead::start(buffer.mapping_.data(), size));
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

const TraceEvent* TraceBuffer::event(uint64_t index) const {
    CHECK(index < recorded());
    const TraceEvent& event = events()[index];
    const uint8_t kind = event.kind.load(std::memory_order_acquire);
    return kind == 0 || kind >= kTraceKinds ? nullptr : &event;
}

} // namespace gpurun::platform
