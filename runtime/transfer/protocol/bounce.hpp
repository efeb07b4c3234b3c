// What a send keeps of the copy of its message that peers can map (pool/bounce_pool.hpp), where they cannot map the
// program's buffer. It outlives the state of the protocol that begins it: the target's answer chooses who reads it.
#pragma once

#include "device/capability/fenced_copies.hpp"
#include "transfer/fence/completion_point.hpp"
#include "transfer/operand.hpp"
#include "transfer/pool/bounce_pool.hpp"

namespace gpurun::transfer {

class Bounce {
  public:
    // The operand's buffer is the copy from now on. False: there is no room for one.
    bool take(BouncePool& pool, Operand& operand);
    bool taken() const { return copy_.has_value(); }
    // The copy, which signals the slot's forward edge, for the operand's stream: it is enqueued next. REQUIRES taken().
    device::FencedCopy make(Fence& fence, const Slot& slot, uint32_t* ticket);
    // When the copy is made; none as long as it is not enqueued.
    const std::optional<CompletionPoint>& made() const { return made_; }
    // The program's buffer is the operand's again, if no copy was enqueued.
    void give_back_unmade(Operand& operand);
    // The copy, if there is one, is not used any more once `end` has come.
    void leave(const CompletionPoint& end);
    // The send is over.
    void finish(Operand& operand);

  private:
    BouncePool* pool_ = nullptr;
    std::optional<BouncePool::Buffer> copy_;
    std::byte* address_ = nullptr; // of the program's buffer
    device::Buffer where_;         // the same
    std::optional<CompletionPoint> made_;
};

} // namespace gpurun::transfer
