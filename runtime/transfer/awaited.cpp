#include "transfer/awaited.hpp"

namespace gpurun::transfer {

base::Result<Awaited> own_end(Context& context, const Awaited& edge, device::Stream stream,
                              std::optional<device::Event>& end) {
    if (!context.uses_event_fence())
        return edge;
    GPURUN_ASSIGN(end, context.events.mark(stream));
    return Awaited::event_of(*end);
}

} // namespace gpurun::transfer
