// The slots of a fence that messages take one at a time, with a value for each use.
//
// A slot is free once the edge that ends its last use has been reached: then no signal or wait of that use is
// still enqueued, so a later value cannot overtake it. A mail may be read before its sender's kernel is done with its
// words, its ticket and its edge (all of them, where the target takes but a part): there both edges count.
//
// Used by the source, under the engine lock.
#pragma once

#include "transfer/awaited.hpp"
#include "transfer/record.hpp"

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
            GPURUN_ASSIGN(bool free, fence.reached(use.last, slot, use.value));
            if (free && kFirst >= kMailSlot) {
                GPURUN_ASSIGN(free, fence.reached(Edge::kForward, slot, use.value));
            }
            if (free) {
                use = Use{use.value + kStep, Edge::kBackward, false};
                return std::optional(SlotValue{slot, 1, use.value});
            }
        }
        return std::optional<SlotValue>();
    }

    // What ends this use is known to be enqueued: its backward edge, or, when nobody answers it, its forward one.
    // The answer may come after the edge itself, when the slot has been taken for another message: then it is late.
    void settle(const SlotValue& used, Edge last) {
        Use& use = uses_[used.slot - kFirst];
        if (use.value != used.value)
            return;
        use.last = last;
        use.settled = true;
    }

    // When none is free: what frees the one that has been in use longest, as far as that is known to be enqueued.
    std::optional<Awaited> next_free(Fence& fence) const {
        for (uint32_t i = 0; i < kCount; ++i) {
            const uint32_t index = (next_ + i) % kCount;
            const Use& use = uses_[index];
            if (use.settled)
                return Awaited::edge_of(&fence, use.last, kFirst + index, use.value);
        }
        return std::nullopt;
    }

  private:
    struct Use {
        uint64_t value = 0;
        Edge last = Edge::kBackward;
        bool settled = false;
    };
    std::array<Use, kCount> uses_{};
    uint32_t next_ = 0;
};

} // namespace gpurun::transfer
