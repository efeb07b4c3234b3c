// The slots of loans from one rank to another. Each use is one signal of the forward edge, which nobody answers: by the
// lender's stream, that the memory is ready, or by the borrower's, that it is done with it.
//
// So a slot is not held while a loan is open. A stream keeps the slot that it had, since its next signal comes after
// its last one anyway. Another stream, or the CPU, takes one whose last signal has come: whoever waits for that later
// is satisfied by a greater value, too. Used by the source, under the engine lock.
#pragma once

#include "transfer/fence/fence.hpp"

#include <array>
#include <optional>

namespace gpurun::transfer {

class LoanSlots {
  public:
    // For a signal in the stream with this name (Device::name); 0: of the CPU. None if other streams have all.
    base::Result<std::optional<Slot>> take(Fence& fence, uint64_t stream) {
        for (size_t index = 0; stream != 0 && index < uses_.size(); ++index)
            if (uses_[index].stream == stream)
                return std::optional(use(index, stream));
        for (size_t tries = 0; tries < uses_.size(); ++tries) {
            const size_t index = next_;
            next_ = (next_ + 1) % uses_.size();
            GPURUN_ASSIGN(const bool free, fence.reached(Edge::kForward, slot_at(index)));
            if (free)
                return std::optional(use(index, stream));
        }
        return std::optional<Slot>();
    }

  private:
    struct Use {
        uint64_t value = 0;
        uint64_t stream = 0;
    };
    Slot slot_at(size_t index) const {
        return Slot{SlotClass::kLoan, true, static_cast<uint16_t>(index), 0, uses_[index].value};
    }
    Slot use(size_t index, uint64_t stream) {
        uses_[index] = {uses_[index].value + kSlotStep, stream};
        return slot_at(index);
    }

    std::array<Use, info_of(SlotClass::kLoan).count> uses_{};
    size_t next_ = 0;
};

} // namespace gpurun::transfer
