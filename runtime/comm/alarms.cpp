#include "comm/alarms.hpp"

#include "platform/clock.hpp"
#include "platform/wake.hpp"

#include <algorithm>

namespace gpurun::comm {

using base::Result;

Result<void> Alarms::set(const transfer::CompletionPoint& point) {
    any_set_ = true;
    Alarm* unused = nullptr;
    for (Alarm& alarm : alarms_) {
        if (alarm.rung.load(std::memory_order_acquire))
            unused = &alarm;
        else if (alarm.point == point)
            return {};
    }
    if (unused == nullptr && alarms_.size() >= core_.resources().pools.streams.limits().alarms)
        return {}; // the thread looks again by itself
    device::Device& device = core_.device();
    if (unused == nullptr) {
        GPURUN_ASSIGN(const device::Stream stream, device.take_reserved_stream());
        unused = &alarms_.emplace_back(core_, stream);
    }
    unused->point = point;
    GPURUN_TRY(point.await(device, unused->stream));
    unused->rung.store(false, std::memory_order_relaxed);
    auto enqueued = device.call_host(unused->stream, Alarm::ring, unused);
    if (!enqueued)
        unused->rung.store(true, std::memory_order_relaxed);
    return enqueued;
}

void Alarms::Alarm::ring(void* alarm) {
    auto* const self = static_cast<Alarm*>(alarm);
    Core& core = *self->core;
    self->rung.store(true, std::memory_order_release);
    core.notify_self(platform::Notify::kAlways);
}

Result<void> Alarms::set_for(const transfer::Operation& operation) {
    if (operation.waits_for_graphs())
        look_again();
    const auto point = operation.awaited();
    return point ? set(*point) : Result<void>();
}

Result<void> Alarms::set_for_moving(bool all) {
    Result<void> result;
    const transfer::Resources& resources = core_.resources();
    if (resources.returning != 0 || resources.unmapping != 0 || resources.ending != 0)
        look_again(); // a marker of the program's stream, the end of its use of memory, or of a process
    const auto set_for_each = [&](const transfer::Operation& each) {
        assume_engine_lock();
        if (result && (all || each.needs_hand()))
            result = set_for(each);
    };
    core_.resources().moving.for_each(set_for_each);
    for (const auto& peer : core_.peers())
        peer->for_each_part([&](const transfer::ProtocolPart& part) {
            if (const transfer::Operation* const first = part.first_waiting())
                set_for_each(*first);
        });
    return result ? others_(all) : std::move(result);
}

int64_t Alarms::longest_sleep_ns(Patience& patience) const {
    bool in_doubt = false;
    core_.resources().moving.for_each([&](const transfer::Operation& each) { in_doubt |= each.is_in_doubt(); });
    if (any_missing_ || in_doubt)
        return kLookAgainNs;
    const int64_t longest_ns = any_set_ ? patience.next_ns(core_.changes()) : platform::kForever;
    if (look_by_ns_ == kNever)
        return longest_ns;
    const int64_t left_ns = std::max<int64_t>(look_by_ns_ - platform::now_ns(), 0);
    return any_set_ ? std::min(longest_ns, left_ns) : left_ns;
}

bool Alarms::any_awaits_edge() const {
    return std::any_of(alarms_.begin(), alarms_.end(), [](const Alarm& alarm) {
        return !alarm.point.on_event() && !alarm.rung.load(std::memory_order_acquire);
    });
}

void Alarms::close() {
    for (Alarm& alarm : alarms_)
        (void)core_.device().destroy_stream(alarm.stream);
    alarms_.clear();
}

} // namespace gpurun::comm
