// The slots of a fence that messages take one at a time, with a value for each use.
//
// A slot is free once the edge that ends its last use has been reached: then no signal or wait of that use is
// still enqueued, so a later value cannot overtake it. Used by the source, under the engine lock.
#pragma once

#include "transfer/fence.hpp"

#include <array>
#include <optional>

namespace gpurun::transfer {

template <uint32_t kFirst, uint32_t kCount>
class Slots {
  public:
    // None if all are in use.
    base::Result<std::optional<SlotValue>> take(Fence& fence) {
        for (uint32_t tries = 0; tries < kCount; ++tries) {
            Use& use = uses_[next_];
            const uint32_t slot = kFirst + next_;
            next_ = (next_ + 1) % kCount;
            GPURUN_ASSIGN(const bool free, fence.reached(use.last, slot, use.value));
            if (free) {
                use = Use{use.value + kStep, Edge::kBackward};
                return std::optional(SlotValue{slot, 1, use.value});
            }
        }
        return std::optional<SlotValue>();
    }

    // This use will never be answered by a backward signal: it ends with its forward one.
    void ends_forward(uint32_t slot) { uses_[slot - kFirst].last = Edge::kForward; }

    uint64_t value(uint32_t slot) const { return uses_[slot - kFirst].value; }
    Edge last_edge(uint32_t slot) const { return uses_[slot - kFirst].last; }

  private:
    struct Use {
        uint64_t value = 0;
        Edge last = Edge::kBackward;
    };
    std::array<Use, kCount> uses_{};
    uint32_t next_ = 0;
};

} // namespace gpurun::transfer
