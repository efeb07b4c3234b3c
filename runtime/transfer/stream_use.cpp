#include "transfer/stream_use.hpp"

#include "device/capability/other_devices.hpp"

#include <utility>

namespace gpurun::transfer {

using base::Result;

Result<void> StreamUse::set_marker() {
    if (!marker_) {
        GPURUN_ASSIGN(marker_, resources_.pools.markers.set(operand_.stream));
    }
    return {};
}

Result<uint64_t> StreamUse::stream_name() {
    if (marker_)
        return marker_->stream;
    return operand_.on_stream() ? resources_.device.name(operand_.stream) : Result<uint64_t>(0);
}

Result<void> StreamUse::await_marker(device::Stream stream) {
    GPURUN_ASSIGN(const uint64_t name, resources_.device.name(stream));
    return name == marker_->stream ? Result<void>() : resources_.device.await_event(stream, marker_->event);
}

Result<bool> StreamUse::is_marker_passed() {
    return marker_ ? resources_.pools.markers.is_passed(*marker_) : Result<bool>(false);
}

Result<bool> StreamUse::is_marker_passed_for_send() {
    return marker_ ? resources_.pools.markers.is_passed_for_send(*marker_) : Result<bool>(false);
}

Result<device::Stream> StreamUse::take_for_message(bool waits_for_peer) {
    InternalStreams& streams = resources_.pools.streams;
    if (!operand_.on_stream())
        return waits_for_peer ? streams.take() : streams.take_ready();
    if (marker_)
        return waits_for_peer ? streams.take() : streams.take_behind(marker_->stream, marker_->number);
    GPURUN_ASSIGN(const uint64_t name, resources_.device.name(operand_.stream));
    return waits_for_peer ? streams.take_again(name)
                          : streams.take_behind(name, resources_.pools.markers.take_number());
}

Result<void> StreamUse::take(bool waits_for_peer) {
    if (internal_)
        return {};
    GPURUN_ASSIGN(internal_, take_for_message(waits_for_peer));
    if (marker_) {
        GPURUN_TRY(resources_.device.await_event(*internal_, marker_->event));
        give_marker_back();
    } else if (operand_.on_stream()) {
        GPURUN_TRY(resources_.pools.events.order(operand_.stream, *internal_));
    }
    operand_.stream = *internal_;
    return {};
}

Result<void> StreamUse::note_joined(device::Stream stream) {
    GPURUN_ASSIGN(const uint64_t name, resources_.device.name(stream));
    resources_.pools.streams.note_joined(*internal_, name);
    return {};
}

Result<bool> StreamUse::take_spare() {
    GPURUN_ASSIGN(internal_, resources_.pools.streams.take_spare());
    if (internal_)
        operand_.stream = *internal_;
    return internal_.has_value();
}

Result<void> StreamUse::take_behind(Fence& fence, Edge edge, const Slot& slot) {
    if (internal_)
        return {};
    GPURUN_ASSIGN(internal_, resources_.pools.streams.take());
    operand_.stream = *internal_;
    return fence.await(edge, slot, *internal_);
}

Result<void> StreamUse::take_beside() {
    GPURUN_ASSIGN(internal_, resources_.pools.streams.take());
    rejoined_ = operand_.stream;
    operand_.stream = *internal_;
    return resources_.pools.events.order(*rejoined_, *internal_);
}

Result<void> StreamUse::rejoin() { return resources_.pools.events.order(*internal_, *rejoined_); }

Result<void> StreamUse::take_bulk() {
    GPURUN_ASSIGN(const InternalStreams::Bulk bulk, resources_.pools.streams.bulk());
    give_marker_back();
    internal_ = bulk.copies;
    signals_ = bulk.signals;
    operand_.stream = bulk.copies;
    return {};
}

Result<void> StreamUse::order_signals() {
    return signals_ ? resources_.pools.events.order(operand_.stream, *signals_) : Result<void>();
}

Result<EventLease> StreamUse::record_end() {
    EventPool& events = resources_.pools.events;
    if (signals_)
        GPURUN_TRY(events.order(*internal_, *signals_));
    GPURUN_ASSIGN(const device::Event event, events.record(signals_.value_or(*internal_)));
    return EventLease(events, event);
}

void StreamUse::synchronize() {
    for (const device::Stream each : {*internal_, signals_.value_or(*internal_)})
        (void)resources_.device.synchronize(each);
}

void StreamUse::finish(InternalStreams::State state, const StreamEnd& end) {
    if (internal_)
        resources_.pools.streams.give_back(*std::exchange(internal_, std::nullopt), state, end);
    give_marker_back();
}

Result<void> await_in_stream(Resources& resources, Fence& fence, Edge edge, const Slot& slot, device::Stream stream) {
    if (!resources.kernels_spin)
        return fence.await(edge, slot, stream);
    GPURUN_ASSIGN(const bool come, fence.reached(edge, slot));
    if (come)
        return {};
    device::Counter& counter = fence.counter(edge, slot);
    if (!resources.pools.kernels.admits(stream, 1, {counter, slot.value}))
        return fence.await(edge, slot, stream);
    return resources.counters->watch_counter(stream, &counter, slot.value);
}

Result<void> await_beside(Resources& resources, const CompletionPoint& end, device::Stream stream) {
    const bool on_counter = !end.on_event() && resources.kernels_spin;
    if (on_counter &&
        resources.exchanges.await_at_once({&end.fence->counter(end.edge, end.slot), end.slot.value}, stream))
        return {};
    return end.await(resources.device, stream);
}

Result<void> copy_in_stream(Resources& resources, const Operand& operand, void* destination, const void* source,
                            size_t bytes, device::Stream stream) {
    if (operand.on_other_device())
        return resources.device.other_devices()->copy_elsewhere(destination, source, bytes, stream);
    if (operand.in_host_memory())
        return resources.pools.host_copies.enqueue(stream, {destination, source, bytes});
    return resources.device.copy(destination, source, bytes, stream);
}

} // namespace gpurun::transfer
