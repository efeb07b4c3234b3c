#include "comm/device_waits.hpp"

namespace gpurun::comm {

using base::Result;
using Why = WaitReason::Kind;

// Waits until the event has come and `is_enough` says so, too.
Result<void> DeviceWaits::wait_for(EngineLock& lock, const WaitReason& reason, device::Event event,
                                   base::FunctionRef<bool()> is_enough) {
    Result<void> result;
    const auto come = [&] {
        auto done = core_.device().query(event);
        if (done)
            return *done && is_enough();
        result = std::move(done).error();
        return true;
    };
    auto waited = waiter_.wait(lock, reason, come, [&] {
        assume_engine_lock();
        return alarms_.set(transfer::CompletionPoint::at(event));
    });
    return waited ? std::move(result) : std::move(waited);
}

Result<void> DeviceWaits::synchronize(device::Stream stream) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    if (!failure_.is_stuck(stream)) {
        transfer::EventPool& events = core_.resources().pools.events;
        GPURUN_ASSIGN(const device::Event event, events.record(stream));
        const transfer::EventLease lease(events, event);
        // The stream may have been released by poison: before the engine knows which messages were cut short, it does
        // not count as done.
        GPURUN_TRY(wait_for(lock, WaitReason{.kind = Why::kStream, .handle = stream.native}, event, [&] {
            assume_engine_lock();
            return failure_.is_stuck(stream) || !failure_.is_losing();
        }));
    }
    return failure_.check(stream);
}

Result<void> DeviceWaits::synchronize(device::Event event) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    return wait_for(lock, WaitReason{.kind = Why::kEvent, .handle = event.native}, event, [] { return true; });
}

Result<void> DeviceWaits::run_for_host(base::FunctionRef<Result<void>(device::Stream)> work) {
    EngineLock lock(core_.mutex());
    const Background::Attendance attendance(background_);
    transfer::Pools& pools = core_.resources().pools;
    GPURUN_ASSIGN(const device::Stream stream, pools.streams.brief());
    GPURUN_TRY(work(stream));
    GPURUN_ASSIGN(const device::Event end, pools.events.record(stream));
    const transfer::EventLease lease(pools.events, end);
    return wait_for(lock, WaitReason{.kind = Why::kStream, .handle = stream.native}, end, [] { return true; });
}

} // namespace gpurun::comm
