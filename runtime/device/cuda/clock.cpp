// Compares the GPU's clock with the CPU's: the CPU asks through host memory, and a kernel of one thread answers with
// its time. An answer was made between the question and its arrival, so the quickest one is the most exact, to about 1
// us.
//
// What it needs is made with the first reading and kept: freeing it may wait for the device.
#include "device/cuda/cuda_device.hpp"

#include "base/format.hpp"
#include "device/cuda/launch.hpp"
#include "platform/clock.hpp"

#include <new>

namespace gpurun::device::cuda {

using platform::ClockReading;
using platform::now_ns;

namespace {

constexpr uint64_t kRounds = 32;
constexpr int64_t kPatienceNs = 100'000'000; // until the GPU has room for the kernel, and with each answer

// Null if the GPU says nothing.
std::optional<ClockReading> ask(ClockPage& page, uint64_t round) {
    page.time.store(0, std::memory_order_relaxed);
    const int64_t asked_ns = now_ns();
    page.asked.store(round, std::memory_order_release); // pairs with the kernel's acquire: its answer comes after the 0
    uint64_t device_ns = 0;
    int64_t answered_ns = asked_ns;
    while (device_ns == 0) {
        device_ns = page.time.load(std::memory_order_acquire);
        answered_ns = now_ns();
        if (answered_ns - asked_ns > kPatienceNs)
            return std::nullopt;
    }
    const int64_t half_ns = (answered_ns - asked_ns) / 2;
    return ClockReading{static_cast<int64_t>(device_ns), asked_ns + half_ns, half_ns};
}

} // namespace

base::Result<void> CudaDevice::prepare_clock() {
    if (clock_.page == nullptr) {
        GPURUN_ASSIGN(void* memory, allocate_pinned(sizeof(ClockPage)));
        clock_.page = new (memory) ClockPage{};
    }
    if (clock_.stream.native == nullptr) {
        GPURUN_ASSIGN(clock_.stream, create_urgent_stream());
    }
    return {};
}

base::Result<ClockReading> CudaDevice::read_clock() {
    const std::lock_guard lock(clock_.mutex);
    if (clock_.lost) // its kernel may come yet, and must not meet another
        return base::error(base::Status::kDevice, "the GPU had no room to read its clock before");
    GPURUN_TRY(prepare_clock());
    clock_.page->asked.store(0, std::memory_order_relaxed);
    GPURUN_ASSIGN(const CUdeviceptr asked, device_address(&clock_.page->asked));
    GPURUN_ASSIGN(const CUdeviceptr time, device_address(&clock_.page->time));
    {
        const auto current = enter_beside_capture();
        const ReadClockArguments arguments{address(asked), address(time), kRounds};
        GPURUN_TRY(launch(kernels_.read_clock, 1, 1, arguments, clock_.stream));
    }
    std::optional<ClockReading> best;
    for (uint64_t round = 1; round <= kRounds; ++round) {
        const auto reading = ask(*clock_.page, round);
        if (!reading) {
            clock_.page->asked.store(kNoMoreRounds, std::memory_order_release);
            clock_.lost = true;
            return base::error(base::Status::kDevice, "the GPU did not read its clock within {} ms",
                               kPatienceNs / 1'000'000);
        }
        if (!best || reading->error_ns < best->error_ns)
            best = reading;
    }
    GPURUN_TRY(synchronize(clock_.stream));
    return *best;
}

base::Result<void> CudaDevice::write_time(Stream stream, std::atomic<int64_t>* where) {
    const auto current = enter();
    GPURUN_ASSIGN(const CUdeviceptr there, device_address(reinterpret_cast<const Counter*>(where)));
    return launch(kernels_.write_time, 1, 1, WriteTimeArguments{address(there)}, stream);
}

} // namespace gpurun::device::cuda
