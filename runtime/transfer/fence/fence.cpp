#include "transfer/fence/fence.hpp"

#include "platform/wake.hpp"

namespace gpurun::transfer {

void Fence::signal_now(Edge edge, const Slot& slot) { platform::store_and_wake(counter(edge, slot), slot.value); }

base::Result<bool> Fence::reached_alive(Edge edge, const Slot& slot) {
    GPURUN_ASSIGN(const bool has_come, reached(edge, slot));
    if (!has_come)
        return false;
    GPURUN_ASSIGN(const bool was_cut_short, cut_short(edge, slot));
    if (was_cut_short)
        return base::Error{base::Status::kPeerLost, "the other rank died before the message had moved"};
    return true;
}

} // namespace gpurun::transfer
