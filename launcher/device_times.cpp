#include "device_times.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpurun::launcher {

using platform::ClockReading;

namespace {

// What a rank has written by accident may be any number.
int64_t difference(int64_t one, int64_t other) {
    return static_cast<int64_t>(static_cast<uint64_t>(one) - static_cast<uint64_t>(other));
}
int64_t sum(int64_t one, int64_t other) {
    return static_cast<int64_t>(static_cast<uint64_t>(one) + static_cast<uint64_t>(other));
}

} // namespace

DeviceClock::DeviceClock(std::span<const ClockReading, 2> readings) : first_(readings[0]) {
    constexpr double kMostDrift = 0.001; // what differs by more is no clock
    const auto device_ns = static_cast<double>(difference(readings[1].device_ns, first_.device_ns));
    const auto host_ns = static_cast<double>(difference(readings[1].host_ns, first_.host_ns));
    if (readings[1].host_ns != 0 && device_ns > 0 && std::abs(host_ns / device_ns - 1) < kMostDrift)
        host_per_device_ = host_ns / device_ns;
}

int64_t DeviceClock::to_host_ns(int64_t device_ns) const {
    const auto passed_ns = static_cast<double>(difference(device_ns, first_.device_ns));
    constexpr double kMost = 9e18; // that is a number of nanoseconds
    return sum(first_.host_ns, std::llround(std::clamp(passed_ns * host_per_device_, -kMost, kMost)));
}

namespace {

MovedMessage moved(const DeviceClock& clock, uint64_t event, const platform::OperationTimes& times) {
    const auto time = [&](const std::atomic<int64_t>& written) {
        const int64_t device_ns = written.load(std::memory_order_relaxed);
        return device_ns == 0 ? 0 : clock.to_host_ns(device_ns);
    };
    const int64_t began_ns = time(times.began);
    const int64_t moving_ns = time(times.moving);
    return {event, std::nullopt, began_ns != 0 ? began_ns : moving_ns, moving_ns, time(times.done)};
}

// A run whose end nobody waited for in the graph was over when the next one began.
std::vector<MovedMessage> moved_runs(const platform::TraceBuffer& buffer, const DeviceClock& clock) {
    std::vector<MovedMessage> runs;
    for (const platform::RunTimes& each : buffer.runs()) {
        const uint64_t event = each.name.load(std::memory_order_acquire) - 1; // 0, none, becomes more than there are
        if (event >= buffer.recorded())
            continue;
        runs.push_back(moved(clock, event, each.times));
        runs.back().run = each.run.load(std::memory_order_relaxed);
    }
    std::sort(runs.begin(), runs.end(), [](const MovedMessage& one, const MovedMessage& other) {
        return std::pair(one.event, *one.run) < std::pair(other.event, *other.run);
    });
    for (size_t i = 0; i + 1 < runs.size(); ++i)
        if (runs[i].done_ns == 0 && runs[i + 1].event == runs[i].event)
            runs[i].done_ns = runs[i].moving_ns;
    return runs;
}

} // namespace

std::vector<MovedMessage> moved_messages(const platform::TraceBuffer& buffer) {
    const DeviceClock clock(buffer.header().clocks);
    std::vector<MovedMessage> all = moved_runs(buffer, clock);
    for (const platform::TraceTimes& each : buffer.times()) {
        const uint64_t event = each.event.load(std::memory_order_acquire) - 1;
        if (event < buffer.recorded())
            all.push_back(moved(clock, event, each.times));
    }
    const auto begin = [](const MovedMessage& each) { return each.began_ns == 0 ? INT64_MAX : each.began_ns; };
    std::stable_sort(all.begin(), all.end(),
                     [&](const MovedMessage& one, const MovedMessage& other) { return begin(one) < begin(other); });
    return all;
}

} // namespace gpurun::launcher
