// The device's clock, and the times that it writes in the order of a stream.
#include "clock_window.hpp"

#include <cstdlib>

namespace gpurun::conformance::clock {

TEST_SUITE_BEGIN("clock");

TEST_CASE("the device's clock goes as fast as the CPU's, as far as readings tell") {
    constexpr int64_t kDrift = 1000; // a clock that is off by more than a thousandth is none
    const auto first = must(subject().clock()->read_clock());
    const int64_t before_ns = platform::now_ns();
    watch();
    const auto last = must(subject().clock()->read_clock());
    CHECK(first.host_ns <= before_ns);
    CHECK(last.host_ns >= before_ns);
    CHECK(first.error_ns <= 1'000'000);
    const int64_t host_ns = last.host_ns - first.host_ns;
    const int64_t device_ns = last.device_ns - first.device_ns;
    CHECK(std::abs(host_ns - device_ns) <= host_ns / kDrift + first.error_ns + last.error_ns + 2000);
}

TEST_CASE("a time is written once what is before it in the stream is over, and not before") {
    const PinnedTimes times(1);
    const size_t edge = new_counter();
    const Event after;
    const Memory memory(4096);
    const Pinned content(4096);
    const Stream stream;
    ClockWindow window;
    REQUIRE_OK(subject().clock()->write_time(stream, &times[0]->began));
    hold(stream, edge);
    REQUIRE_OK(subject().clock()->write_time(stream, &times[0]->moving));
    REQUIRE_OK(subject().copy(memory.get(), content.get(), 4096, stream));
    REQUIRE_OK(subject().record(after, stream));
    REQUIRE_OK(subject().clock()->write_time(stream, &times[0]->done));
    watch();
    CHECK(times[0]->moving == 0);
    const int64_t release_ns = platform::now_ns();
    store(edge, 1);
    REQUIRE(soon([&] { return after.done(); })); // whoever waits for it is not held up by the time behind it
    stream.finish();
    window.close();
    window.check(*times[0], release_ns);
    CHECK(times[0]->began < times[0]->moving);
}

TEST_CASE("times of many streams are written side by side") {
    constexpr size_t kStreams = 8;
    const PinnedTimes times(kStreams);
    const size_t edge = new_counter();
    const Stream streams[kStreams];
    ClockWindow window;
    for (size_t i = 0; i < kStreams; ++i) {
        hold(streams[i], edge);
        for (auto device::Times::*const which : {&device::Times::began, &device::Times::moving, &device::Times::done})
            REQUIRE_OK(subject().clock()->write_time(streams[i], &(times[i]->*which)));
    }
    watch();
    const int64_t release_ns = platform::now_ns();
    store(edge, 1);
    for (const Stream& each : streams)
        each.finish();
    window.close();
    for (size_t i = 0; i < kStreams; ++i)
        window.check(*times[i], release_ns);
}

TEST_SUITE_END();

} // namespace gpurun::conformance::clock
