// The slots of one class that messages of one direction take, one at a time.
//
// A slot is free once its last use has ended (FreedBy): then no signal or wait of that use is still enqueued, so a
// later value cannot overtake it. Used by the source, under the engine lock.
#pragma once

#include "transfer/fence/completion_point.hpp"

#include <optional>
#include <span>
#include <vector>

namespace gpurun::transfer {

class SlotRing {
  public:
    explicit SlotRing(SlotClass slots) : slots_(slots), uses_(info_of(slots).count) {}

    // None if all are in use.
    base::Result<std::optional<Slot>> take(Fence& fence);
    // As many as `slots` has, of the first `among`: those that are free first, since their memory stays in a cache.
    // False, and none is taken: there are fewer.
    base::Result<bool> take_all(Fence& fence, std::span<Slot> slots, size_t among);
    // The signal of the edge that ends this use is known to be enqueued: the backward edge, or, if the target does not
    // signal, the forward one. Does nothing if the slot is in use for a later message already.
    void settle(const Slot& used, Edge last);
    // When none is free: the edge that frees the one in use longest, if that edge's signal is known to be enqueued.
    std::optional<CompletionPoint> next_free(Fence& fence) const;

  private:
    struct Use {
        uint64_t value = 0;
        Edge last = Edge::kBackward;
        bool settled = false;
    };
    Slot slot_at(size_t index) const { return Slot{slots_, true, static_cast<uint16_t>(index), 0, uses_[index].value}; }

    const SlotClass slots_;
    std::vector<Use> uses_;
    size_t next_ = 0;
};

} // namespace gpurun::transfer
