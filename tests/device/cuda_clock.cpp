// How the CUDA device asks the GPU for its time, above a driver that is not there.
#include "cuda_bench.hpp"

#include "platform/clock.hpp"

#include <atomic>
#include <cstdlib>
#include <thread>

namespace gpurun::test {

using base::Status;
using namespace device::cuda;

TEST_CASE("the GPU's clock is what it says between a question and its answer") {
    constexpr int64_t kAhead = 1'000'000'000'000;
    Bench bench;
    fake().argument_bytes = sizeof(ReadClockArguments);
    last_registered = nullptr;
    std::atomic<bool> over{false}, runs{false};
    std::thread kernel([&] { // as the kernel does
        uint64_t answered = 0;
        runs = true;
        runs.notify_one();
        while (!over) {
            auto* const page = static_cast<device::cuda::ClockPage*>(last_registered.load());
            const uint64_t asked = page != nullptr ? page->asked.load() : 0;
            if (asked > answered) {
                answered = asked;
                page->time.store(static_cast<uint64_t>(platform::now_ns() + kAhead));
            }
        }
    });
    runs.wait(false); // a question is given up after 100 ms, in which a busy machine may not have started a thread
    const int64_t before_ns = platform::now_ns();
    auto reading = bench.device.read_clock();
    const int64_t after_ns = platform::now_ns();
    over = true;
    kernel.join();
    REQUIRE_OK(reading);
    CHECK(fake().launches.front().kernel == kReadClock);
    CHECK(reading->host_ns >= before_ns);
    CHECK(reading->host_ns <= after_ns);
    CHECK(std::abs(reading->device_ns - kAhead - reading->host_ns) <= reading->error_ns + 1); // an odd nanosecond
}

TEST_CASE("a time is written by one thread, at the address that the device has for it") {
    std::atomic<int64_t> where{0};
    for (const bool host_pointers : {true, false}) {
        Bench bench(host_pointers);
        fake().host_distance = 0x1000;
        const auto [launch, arguments] =
            bench.launched<WriteTimeArguments>([&](CudaDevice& device) { return device.write_time(kStream, &where); });
        CHECK(launch.kernel == kWriteTime);
        CHECK(launch.blocks * launch.threads == 1);
        CHECK(reinterpret_cast<uintptr_t>(arguments.where) ==
              reinterpret_cast<uintptr_t>(&where) + (host_pointers ? 0 : 0x1000));
    }
}

TEST_CASE("a GPU that does not read its clock is not waited for, and not asked again") {
    Bench bench;
    fake().argument_bytes = sizeof(ReadClockArguments);
    CHECK_STATUS(bench.device.read_clock(), Status::kDevice);
    const auto& page = *static_cast<const device::cuda::ClockPage*>(last_registered.load());
    CHECK(page.asked.load() == kNoMoreRounds); // so that the kernel ends once it comes
    CHECK_STATUS(bench.device.read_clock(), Status::kDevice);
    CHECK(fake().launches.size() == 1);
}

} // namespace gpurun::test
