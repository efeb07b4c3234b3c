#include "platform/trace_buffer.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unistd.h>

namespace gpurun::platform {

using base::Result;

constinit thread_local TraceBuffer::Thread TraceBuffer::thread_;

namespace {

size_t whole_pages(size_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }

} // namespace

size_t TraceBuffer::Room::timed_offset() const { return whole_pages(kTraceHeaderBytes + events * sizeof(TraceEvent)); }
size_t TraceBuffer::Room::runs_offset() const { return timed_offset() + whole_pages(timed * sizeof(TraceTimes)); }
size_t TraceBuffer::Room::bytes() const {
    return runs_offset() + (runs == 0 ? 0 : whole_pages(sizeof(TraceRuns) + runs * sizeof(RunTimes)));
}

TraceBuffer::TraceBuffer(UniqueFd fd, Mapping mapping, const Room& room)
    : fd_(std::move(fd)), mapping_(std::move(mapping)), capacity_(room.events), timed_capacity_(room.timed),
      runs_capacity_(room.runs), timed_offset_(room.timed_offset()), runs_offset_(room.runs_offset()) {}

Result<TraceBuffer> TraceBuffer::create(uint64_t events, uint64_t timed, uint64_t runs) {
    const Room room{events, timed, runs};
    GPURUN_ASSERT(events > 0 && room.sound());
    GPURUN_ASSIGN(UniqueFd fd, create_segment("gpurun-trace", room.bytes()));
    GPURUN_ASSIGN(Mapping mapping, Mapping::map(fd.get(), 0, room.bytes()));
    TraceBuffer buffer(std::move(fd), std::move(mapping), room);
    buffer.header().magic = kTraceMagic;
    buffer.header().layout = kTraceLayout;
    buffer.header().capacity = events;
    buffer.header().timed_capacity = timed;
    buffer.header().runs_capacity = runs;
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
    const Room room{header.capacity, header.timed_capacity, header.runs_capacity};
    if (header.magic != kTraceMagic || header.layout != kTraceLayout || !room.sound() || room.bytes() != size)
        return not_ours();
    TraceBuffer buffer(std::move(fd), std::move(mapping), room);
    GPURUN_ASSIGN(buffer.pages_, PagesAhead::start(buffer.mapping_.data(), buffer.timed_offset_));
    return buffer;
}

void TraceBuffer::announce_thread() {
    constexpr uint32_t kMost = std::numeric_limits<uint16_t>::max(); // those beyond share a number
    const uint32_t number = std::min(header().threads.fetch_add(1, std::memory_order_relaxed) + 1, kMost);
    thread_ = Thread{this, static_cast<uint16_t>(number)};
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

uint64_t TraceBuffer::lost_runs() const {
    return runs_capacity_ == 0 ? 0 : runs_header()->lost.load(std::memory_order_acquire);
}

const TraceEvent* TraceBuffer::event(uint64_t index) const {
    GPURUN_ASSERT(index < recorded());
    const TraceEvent& event = events()[index];
    const uint8_t kind = event.kind.load(std::memory_order_acquire);
    return kind == 0 || kind >= kTraceKinds ? nullptr : &event;
}

TraceBuffer::Part TraceBuffer::part_from(size_t offset, size_t most) const {
    const off_t begin = ::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_DATA);
    const off_t end = begin < 0 ? -1 : ::lseek(fd_.get(), begin, SEEK_HOLE);
    if (end < 0)
        return {};
    const auto at = static_cast<size_t>(begin);
    return {at, {reinterpret_cast<const char*>(mapping_.data() + at), std::min(static_cast<size_t>(end) - at, most)}};
}

bool TraceBuffer::put(const Part& part) {
    if (part.offset > mapping_.size() || part.bytes.size() > mapping_.size() - part.offset)
        return false;
    std::memcpy(mapping_.data() + part.offset, part.bytes.data(), part.bytes.size());
    return true;
}

void TraceBuffer::convert_times(base::FunctionRef<int64_t(int64_t)> to) {
    const auto convert = [&](std::atomic<int64_t>& time_ns) {
        if (const int64_t there_ns = time_ns.load(std::memory_order_relaxed); there_ns != 0)
            time_ns.store(to(there_ns), std::memory_order_relaxed);
    };
    for (TraceEvent& event : std::span(events(), recorded())) {
        event.begin_ns = to(event.begin_ns);
        convert(event.matched_ns);
        convert(event.end_ns);
    }
    for (ClockReading& reading : header().clocks)
        if (reading.host_ns != 0)
            reading.host_ns = to(reading.host_ns);
}

} // namespace gpurun::platform
