#include "transfer/awaited.hpp"

namespace gpurun::transfer {

base::Result<Awaited> own_end(Context& context, const Awaited& edge, device::Stream stream,
                              std::optional<device::Event>& end) {
    if (!context.uses_event_fence())
        return edge;
    GPURUN_ASSIGN(end, context.events.mark(stream));
    return Awaited::event_of(*end);
}

base::Result<void> await_in_stream(Context& context, Fence& fence, Edge edge, const SlotValue& slot,
                                   device::Stream stream) {
    if (!context.kernels_wait)
        return fence.await(edge, slot.slot, slot.value, stream);
    GPURUN_ASSIGN(const bool come, fence.reached(edge, slot.slot, slot.value));
    if (come)
        return {};
    device::Counter& counter = fence.counter(edge, slot.slot);
    if (!context.waits.admits(stream, 1, counter, slot.value))
        return fence.await(edge, slot.slot, slot.value, stream);
    return context.device.watch_counter(stream, &counter, slot.value);
}

} // namespace gpurun::transfer
