#include "transfer/protocol/bounce.hpp"

#include <utility>

namespace gpurun::transfer {

bool Bounce::take(BouncePool& pool, Operand& operand) {
    copy_ = pool.take(operand.bytes);
    if (!copy_)
        return false;
    pool_ = &pool;
    address_ = operand.address;
    where_ = std::exchange(operand.where, copy_->where);
    operand.address = copy_->data;
    return true;
}

device::FencedCopy Bounce::make(Fence& fence, const Slot& slot, uint32_t* ticket) {
    made_ = CompletionPoint::at(fence, Edge::kForward, slot);
    device::FencedCopy copy;
    copy.destination = copy_->data;
    copy.source = address_;
    copy.bytes = copy_->bytes;
    copy.after = &fence.counter(Edge::kForward, slot);
    copy.value = slot.value;
    copy.ticket = ticket;
    return copy;
}

void Bounce::give_back_unmade(Operand& operand) {
    if (!copy_ || made_)
        return;
    pool_->give_back(*std::exchange(copy_, std::nullopt));
    operand.address = address_;
    operand.where = where_;
}

void Bounce::leave(const CompletionPoint& end) {
    if (copy_)
        pool_->leave(*std::exchange(copy_, std::nullopt), end);
}

// Nobody has read the copy, or who does may get anything.
void Bounce::finish(Operand& operand) {
    give_back_unmade(operand);
    if (made_)
        leave(*made_);
}

} // namespace gpurun::transfer
