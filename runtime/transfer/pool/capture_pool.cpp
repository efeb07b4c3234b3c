#include "transfer/pool/capture_pool.hpp"

namespace gpurun::transfer {

using base::Result;

CapturePool::~CapturePool() {
    for (const device::Stream each : branches_)
        (void)device_.destroy_stream(each); // one that is still captured goes with the process
    for (const OrderEvent& each : events_)
        (void)device_.destroy_event(each.event); // a failed device keeps them; nothing to do
}

Result<device::Stream> CapturePool::take_branch() {
    for (const device::Stream each : branches_) {
        GPURUN_ASSIGN(const bool captured, device_.is_captured(each)); // into a graph that is not ended yet
        if (!captured)
            return each;
    }
    GPURUN_ASSIGN(const device::Stream stream,
                  branches_.size() < reserved_ ? device_.take_reserved_stream() : device_.create_urgent_stream());
    branches_.push_back(stream);
    return stream;
}

Result<CapturePool::OrderEvent*> CapturePool::take_event() {
    for (size_t looked_at = 0; looked_at < events_.size(); ++looked_at) {
        OrderEvent& event = events_[next_event_++ % events_.size()];
        if (event.unused->exchange(false, std::memory_order_acquire))
            return &event;
    }
    GPURUN_ASSIGN(const device::Event made, device_.create_event());
    return &events_.emplace_back(OrderEvent{made, std::make_shared<std::atomic<bool>>(false)});
}

Result<device::Event> CapturePool::mark(device::Stream captured) {
    GPURUN_ASSIGN(const OrderEvent* const event, take_event());
    const auto gone = [](void* argument) {
        const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> unused(
            static_cast<std::shared_ptr<std::atomic<bool>>*>(argument));
        (*unused)->store(true, std::memory_order_release);
    };
    GPURUN_TRY(graphs_->at_graph_end(captured, gone, new std::shared_ptr<std::atomic<bool>>(event->unused)));
    GPURUN_TRY(device_.record(event->event, captured));
    return event->event;
}

Result<void> CapturePool::order(device::Stream first, device::Stream second) {
    GPURUN_ASSIGN(const device::Event event, mark(first));
    return device_.await_event(second, event);
}

} // namespace gpurun::transfer
