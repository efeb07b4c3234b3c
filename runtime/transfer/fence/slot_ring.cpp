#include "transfer/fence/slot_ring.hpp"

namespace gpurun::transfer {

base::Result<std::optional<Slot>> SlotRing::take(Fence& fence) {
    for (size_t tries = 0; tries < uses_.size(); ++tries) {
        const size_t index = next_;
        next_ = (next_ + 1) % uses_.size();
        GPURUN_ASSIGN(bool free, fence.reached(uses_[index].last, slot_at(index)));
        if (free && info_of(slots_).freed_by == FreedBy::kBothEdges) {
            GPURUN_ASSIGN(free, fence.reached(Edge::kForward, slot_at(index)));
        }
        if (!free)
            continue;
        uses_[index] = Use{uses_[index].value + kSlotStep, Edge::kBackward, false};
        return std::optional(slot_at(index));
    }
    return std::optional<Slot>();
}

base::Result<bool> SlotRing::take_all(Fence& fence, std::span<Slot> slots, size_t among) {
    size_t found = 0;
    for (size_t index = 0; index < among && found < slots.size(); ++index) {
        GPURUN_ASSIGN(const bool free, fence.reached(uses_[index].last, slot_at(index)));
        if (free)
            slots[found++] = slot_at(index);
    }
    if (found < slots.size())
        return false;
    for (Slot& each : slots) {
        uses_[each.index] = Use{each.value + kSlotStep, Edge::kBackward, false};
        each = slot_at(each.index);
    }
    return true;
}

void SlotRing::settle(const Slot& used, Edge last) {
    Use& use = uses_[used.index];
    if (use.value != used.value)
        return;
    use.last = last;
    use.settled = true;
}

std::optional<CompletionPoint> SlotRing::next_free(Fence& fence) const {
    for (size_t i = 0; i < uses_.size(); ++i) {
        const size_t index = (next_ + i) % uses_.size();
        if (uses_[index].settled)
            return CompletionPoint::at(fence, uses_[index].last, slot_at(index));
    }
    return std::nullopt;
}

} // namespace gpurun::transfer
