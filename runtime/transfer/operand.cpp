#include "transfer/operand.hpp"

namespace gpurun::transfer {

using base::Result;

namespace {

Result<device::Stream> take_internal(Context& context, const Operand& operand, const std::optional<Place>& place,
                                     bool waits_for_peer) {
    if (!operand.on_stream || waits_for_peer)
        return context.streams.take();
    if (place)
        return context.streams.take_behind(place->stream, place->number);
    GPURUN_ASSIGN(const uint64_t name, context.device.name(operand.stream));
    return context.streams.take_behind(name, context.places.take_number());
}

} // namespace

Result<void> borrow_stream(Context& context, Operand& operand, std::optional<Place>& place, bool waits_for_peer,
                           std::optional<device::Stream>& borrowed) {
    if (borrowed)
        return {};
    GPURUN_ASSIGN(borrowed, take_internal(context, operand, place, waits_for_peer));
    if (place) {
        GPURUN_TRY(context.device.await_event(*borrowed, place->event));
        context.places.give_back(place);
    } else if (operand.on_stream) {
        GPURUN_TRY(context.joints.order(operand.stream, *borrowed));
    }
    operand.stream = *borrowed;
    return {};
}

} // namespace gpurun::transfer
