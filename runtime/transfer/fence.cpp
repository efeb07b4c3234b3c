#include "transfer/fence.hpp"

#include "platform/wake.hpp"

namespace gpurun::transfer {

void Fence::signal_now(Edge edge, uint32_t slot, uint64_t value) {
    platform::store_and_wake(counter(edge, slot), value);
}

base::Result<bool> reached_alive(Fence& fence, Edge edge, uint32_t slot, uint64_t value) {
    GPURUN_ASSIGN(const bool reached, fence.reached(edge, slot, value));
    if (!reached)
        return false;
    GPURUN_ASSIGN(const bool cut_short, fence.cut_short(edge, slot, value));
    if (cut_short)
        return base::Error{base::Status::kPeerLost, "the other rank died before the message had moved"};
    return true;
}

} // namespace gpurun::transfer
