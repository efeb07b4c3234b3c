#include "transfer/pool/event_pool.hpp"

namespace gpurun::transfer {

using base::Result;

EventPool::~EventPool() {
    for (const auto* events : {&all_, &order_})
        for (const device::Event event : *events)
            (void)device_.destroy_event(event); // a failed device keeps them; nothing to do
}

Result<device::Event> EventPool::record(device::Stream stream) {
    if (idle_.empty()) {
        GPURUN_ASSIGN(const device::Event made, device_.create_event());
        all_.push_back(made);
        idle_.reserve(all_.size());
        idle_.push_back(made);
    }
    const device::Event event = idle_.back();
    GPURUN_TRY(device_.record(event, stream));
    idle_.pop_back();
    return event;
}

Result<void> EventPool::order(device::Stream first, device::Stream second) {
    if (order_.size() < kOrderEvents) {
        GPURUN_ASSIGN(const device::Event made, device_.create_event());
        order_.push_back(made);
    }
    const device::Event event = order_[next_order_];
    next_order_ = (next_order_ + 1) % kOrderEvents;
    GPURUN_TRY(device_.record(event, first));
    return device_.await_event(second, event);
}

} // namespace gpurun::transfer
