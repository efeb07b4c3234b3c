#include "platform/trace_buffer.hpp"
#include "platform/shared_memory.hpp"
#include "support/unit.hpp"

#include <deque>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace gpurun::platform;
using gpurun::test::must;

namespace {

// The rank's end of a launcher's buffer: another mapping of the same segment. A process has one, as long as it lives.
TraceBuffer& attached(const TraceBuffer& launchers) {
    static std::deque<TraceBuffer> all;
    return all.emplace_back(must(TraceBuffer::attach(UniqueFd(::dup(launchers.fd())))));
}

uint64_t count(const TraceBuffer& buffer, TraceKind kind) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < buffer.recorded(); ++i)
        if (const TraceEvent* event = buffer.event(i))
            found += event->kind == static_cast<uint8_t>(kind) ? 1 : 0;
    return found;
}

} // namespace

TEST_SUITE_BEGIN("trace buffer");

TEST_CASE("what a rank publishes its launcher reads, with the thread that did it") {
    const TraceBuffer launchers = must(TraceBuffer::create(16));
    TraceBuffer& ranks = attached(launchers);
    const int64_t before_ns = now_ns();
    TraceEvent* event = ranks.begin();
    REQUIRE(event != nullptr);
    event->bytes = 42;
    TraceBuffer::publish(*event, TraceKind::kSend);
    REQUIRE(launchers.recorded() == 2);
    const TraceEvent* thread = launchers.event(0);
    const TraceEvent* send = launchers.event(1);
    REQUIRE(thread != nullptr);
    REQUIRE(send != nullptr);
    CHECK(thread->kind == static_cast<uint8_t>(TraceKind::kThread));
    CHECK(thread->ordinal == static_cast<uint64_t>(::gettid()));
    CHECK(send->bytes == 42);
    CHECK(send->thread == thread->thread);
    CHECK(send->begin_ns >= before_ns);
    CHECK(send->end_ns == 0);
    event->end_ns = now_ns();
    CHECK(send->end_ns >= send->begin_ns);
}

TEST_CASE("an event that was begun and not published is skipped") {
    const TraceBuffer launchers = must(TraceBuffer::create(16));
    TraceBuffer& ranks = attached(launchers);
    (void)ranks.begin();
    CHECK(launchers.recorded() == 2);
    CHECK(launchers.event(1) == nullptr);
}

TEST_CASE("a kind that there is not is skipped") {
    const TraceBuffer launchers = must(TraceBuffer::create(16));
    TraceBuffer& ranks = attached(launchers);
    ranks.begin()->kind = 200;
    CHECK(launchers.event(1) == nullptr);
}

TEST_CASE("a full buffer counts what it loses") {
    const TraceBuffer launchers = must(TraceBuffer::create(3));
    TraceBuffer& ranks = attached(launchers);
    CHECK(ranks.begin() != nullptr); // behind its thread's event
    CHECK(ranks.begin() != nullptr);
    CHECK(ranks.begin() == nullptr);
    CHECK(ranks.begin() == nullptr);
    CHECK(launchers.recorded() == 3);
    CHECK(launchers.lost() == 2);
}

TEST_CASE("threads record side by side, each in its own track") {
    constexpr int kThreads = 4;
    constexpr int kEach = 1000;
    const TraceBuffer launchers = must(TraceBuffer::create(kThreads * (kEach + 1)));
    TraceBuffer& ranks = attached(launchers);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&ranks, t] {
            for (int i = 0; i < kEach; ++i) {
                TraceEvent* event = ranks.begin();
                event->bytes = static_cast<uint64_t>(t);
                TraceBuffer::publish(*event, TraceKind::kReceive);
            }
        });
    for (std::thread& each : threads)
        each.join();
    CHECK(launchers.lost() == 0);
    CHECK(count(launchers, TraceKind::kThread) == kThreads);
    CHECK(count(launchers, TraceKind::kReceive) == kThreads * kEach);
    std::set<std::pair<uint16_t, uint64_t>> whose;
    for (uint64_t i = 0; i < launchers.recorded(); ++i)
        if (launchers.event(i)->kind == static_cast<uint8_t>(TraceKind::kReceive))
            whose.emplace(launchers.event(i)->thread, launchers.event(i)->bytes);
    CHECK(whose.size() == kThreads); // each thread has one number, and no two the same
}

TEST_CASE("times are given to messages while there is room, and once the rank has said that it has a device for them") {
    const TraceBuffer launchers = must(TraceBuffer::create(16, 2));
    TraceBuffer& ranks = attached(launchers);
    TraceEvent& first = *ranks.begin();
    TraceEvent& second = *ranks.begin();
    CHECK(ranks.take_times(first) == nullptr);
    CHECK(launchers.times().empty());
    ranks.time_messages();
    OperationTimes* const times = ranks.take_times(second);
    REQUIRE(times != nullptr);
    times->done = 77;
    CHECK(ranks.take_times(first) != nullptr);
    CHECK(ranks.take_times(first) == nullptr);
    CHECK(launchers.untimed() == 1);
    REQUIRE(launchers.times().size() == 2);
    CHECK(launchers.times()[0].event == 3); // the third, behind its thread's, and one more
    CHECK(launchers.times()[0].times.done == 77);
    CHECK(launchers.times()[1].event == 2);
}

TEST_CASE("times are whole pages of their own, which a device can register") {
    const TraceBuffer launchers = must(TraceBuffer::create(1000, 200));
    TraceBuffer& ranks = attached(launchers);
    const auto memory = ranks.timed_memory();
    CHECK(reinterpret_cast<uintptr_t>(memory.data()) % page_size() == 0);
    CHECK(memory.size() % page_size() == 0);
    CHECK(memory.size() >= 200 * sizeof(TraceTimes));
    ranks.time_messages();
    TraceEvent* last = ranks.begin();
    for (TraceEvent* next = last; next != nullptr; next = ranks.begin())
        last = next;
    CHECK(static_cast<const void*>(last + 1) <= memory.data());
    const auto* const times = reinterpret_cast<const std::byte*>(ranks.take_times(*last));
    CHECK(times == memory.data());
    CHECK(must(TraceBuffer::create(16)).timed_memory().empty());
}

TEST_CASE("runs lie behind the times, in the same whole pages") {
    const TraceBuffer launchers = must(TraceBuffer::create(1000, 200, 300));
    TraceBuffer& ranks = attached(launchers);
    CHECK(ranks.runs_of_rank().capacity == 0); // no device has registered them
    ranks.time_messages();
    const TraceBuffer::Runs runs = ranks.runs_of_rank();
    REQUIRE(runs.capacity == 300);
    const auto memory = ranks.timed_memory();
    const auto* const first = reinterpret_cast<const std::byte*>(runs.header);
    CHECK(first >= memory.data() + 200 * sizeof(TraceTimes));
    CHECK(reinterpret_cast<const std::byte*>(runs.first + runs.capacity) <= memory.data() + memory.size());
    runs.first[299].run = 5;
    runs.header->lost = 3;
    REQUIRE(launchers.runs().size() == 300);
    CHECK(launchers.runs()[299].run == 5);
    CHECK(launchers.lost_runs() == 3);
    const TraceBuffer none = must(TraceBuffer::create(16, 2));
    CHECK(none.runs().empty());
    CHECK(none.lost_runs() == 0);
}

TEST_CASE("what a rank writes into the header does not mislead its launcher") {
    const TraceBuffer launchers = must(TraceBuffer::create(3));
    TraceBuffer& ranks = attached(launchers);
    ranks.header().capacity = UINT64_MAX;
    ranks.header().taken = UINT64_MAX;
    ranks.header().timed = UINT64_MAX;
    ranks.header().runs_capacity = UINT64_MAX;
    CHECK(launchers.recorded() == 3);
    CHECK(launchers.times().empty());
    CHECK(launchers.runs().empty());
    CHECK(launchers.lost_runs() == 0);
}

TEST_CASE("segments that are no buffer of this version are refused") {
    CHECK(!TraceBuffer::attach(must(create_segment("short", 4096))));
    CHECK(!TraceBuffer::attach(must(create_segment("zeros", 64 * 1024))));
    const TraceBuffer later = must(TraceBuffer::create(3));
    later.header().layout = kTraceLayout + 1;
    CHECK(!TraceBuffer::attach(UniqueFd(::dup(later.fd()))));
    const TraceBuffer lies = must(TraceBuffer::create(3));
    lies.header().capacity = 1'000'000; // far behind its end
    CHECK(!TraceBuffer::attach(UniqueFd(::dup(lies.fd()))));
    lies.header().capacity = 3;
    lies.header().timed_capacity = 1'000'000;
    CHECK(!TraceBuffer::attach(UniqueFd(::dup(lies.fd()))));
    lies.header().timed_capacity = 0;
    lies.header().runs_capacity = 1'000'000;
    CHECK(!TraceBuffer::attach(UniqueFd(::dup(lies.fd()))));
}

TEST_CASE("what was recorded reaches another buffer of its room in parts, and no others do") {
    const TraceBuffer launchers = must(TraceBuffer::create(100'000, 2));
    TraceBuffer& ranks = attached(launchers);
    for (int i = 0; i < 50'000; ++i) {
        TraceEvent& event = *ranks.begin();
        event.tag = i;
        TraceBuffer::publish(event, TraceKind::kSend);
    }
    ranks.time_messages();
    ranks.take_times(*ranks.begin())->done = 77;
    TraceBuffer copy = must(TraceBuffer::create(100'000, 2));
    constexpr size_t kMost = 100'000;
    size_t parts = 0;
    for (auto part = launchers.part_from(0, kMost); !part.bytes.empty();
         part = launchers.part_from(part.offset + part.bytes.size(), kMost), ++parts) {
        CHECK(part.bytes.size() <= kMost);
        REQUIRE(copy.put(part));
    }
    CHECK(parts > 30);  // of 3.2 MB
    CHECK(parts < 100); // and not of the room for as much again
    REQUIRE(copy.recorded() == 50'002);
    CHECK(copy.event(1)->tag == 0);
    CHECK(copy.event(50'000)->tag == 49'999);
    CHECK(copy.event(50'000)->begin_ns == launchers.event(50'000)->begin_ns);
    REQUIRE(copy.times().size() == 1);
    CHECK(copy.times()[0].times.done == 77);
    CHECK_FALSE(copy.put({size_t{1} << 40, "x"}));
    CHECK_FALSE(copy.put({SIZE_MAX, "x"}));
    CHECK(launchers.part_from(size_t{1} << 40, kMost).bytes.empty());
}

TEST_CASE("times of another clock are converted, but for those that there are not") {
    TraceBuffer buffer = must(TraceBuffer::create(16));
    TraceEvent& event = *buffer.begin();
    event.begin_ns = 10;
    event.matched_ns = 0;
    event.end_ns = 30;
    buffer.header().clocks[0] = {500, 40, 1};
    buffer.convert_times([](int64_t time_ns) { return time_ns + 1000; });
    CHECK(event.begin_ns == 1010);
    CHECK(event.matched_ns == 0);
    CHECK(event.end_ns == 1030);
    CHECK(buffer.header().clocks[0].host_ns == 1040);
    CHECK(buffer.header().clocks[0].device_ns == 500);
    CHECK(buffer.header().clocks[1].host_ns == 0);
}
