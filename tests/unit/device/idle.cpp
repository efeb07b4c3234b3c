// An emulated device costs no CPU while nothing happens, and can be closed whatever its streams wait for.
#include "emulated.hpp"

#include "device/capability/counters.hpp"
#include "platform/clock.hpp"

#include <chrono>
#include <ctime>
#include <new>
#include <thread>

using namespace gpurun;
using test::must;
using test::open_emulated;

TEST_CASE("streams that are idle, or that wait for a counter or an event, use no CPU") {
    const auto device = open_emulated();
    void* page = must(device->allocate_pinned(4096));
    auto* counter = new (page) device::Counter(0);
    const device::Event event = must(device->create_event());
    for (int i = 0; i < 8; ++i) {
        const device::Stream idle = must(device->create_stream());
        REQUIRE_OK(device->fill(static_cast<std::byte*>(page) + 2048 + i, 0, 1, idle));
        const device::Stream blocked = must(device->create_stream());
        REQUIRE_OK(device->counters()->await_counter(blocked, counter, 1));
        REQUIRE_OK(device->record(event, blocked));
        const device::Stream behind = must(device->create_stream());
        REQUIRE_OK(device->await_event(behind, event));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); // until all have started and gone to sleep
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const double used_s = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    CHECK(used_s < 0.02);
}

TEST_CASE("a device whose streams wait for ever can be closed") {
    auto device = open_emulated();
    void* page = must(device->allocate_pinned(4096));
    auto* counter = new (page) device::Counter(0);
    const device::Event event = must(device->create_event());
    const device::Stream blocked = must(device->create_stream());
    const device::Stream behind = must(device->create_stream());
    REQUIRE_OK(device->counters()->await_counter(blocked, counter, 1));
    REQUIRE_OK(device->record(event, blocked));
    REQUIRE_OK(device->await_event(behind, event));
    const int64_t before_ns = platform::now_ns();
    device.reset();
    CHECK(platform::now_ns() - before_ns < 5'000'000'000);
}
