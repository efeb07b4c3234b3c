// Functions that streams of an emulated device run on the host.
#include "emulated.hpp"

#include <atomic>
#include <chrono>
#include <thread>

using namespace gpurun;
using test::must;
using test::open_emulated;

TEST_CASE("functions that streams run are called one at a time, whatever their streams") {
    const auto device = open_emulated();
    struct {
        std::atomic<bool> begun = false, open = false;
    } held;
    std::atomic<bool> ran = false;
    const device::Stream first = must(device->create_stream()), second = must(device->create_stream());
    REQUIRE_OK(device->call_host(
        first,
        [](void* argument) {
            auto& mine = *static_cast<decltype(held)*>(argument);
            mine.begun = true;
            mine.begun.notify_all();
            mine.open.wait(false);
        },
        &held));
    held.begun.wait(false);
    REQUIRE_OK(device->call_host(
        second, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, &ran));
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); // it would have run in far less
    CHECK_FALSE(ran);
    held.open = true;
    held.open.notify_all();
    REQUIRE_OK(device->synchronize(second));
    CHECK(ran);
}
