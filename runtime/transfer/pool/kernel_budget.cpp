#include "transfer/pool/kernel_budget.hpp"

#include <algorithm>

namespace gpurun::transfer {

bool KernelBudget::Ends::have_come() {
    while (number_ > 0 && all_[number_ - 1].done->load(std::memory_order_relaxed) >= all_[number_ - 1].value)
        --number_;
    return number_ == 0;
}

bool KernelBudget::admits(device::Stream stream, uint32_t blocks, const Ends& ends) {
    SpinningKernel* same = nullptr;
    uint32_t taken = 0;
    for (size_t i = 0; i < spinning_.size();) {
        SpinningKernel& each = spinning_[i];
        if (each.ends.have_come()) {
            each = spinning_.back();
            spinning_.pop_back();
            continue;
        }
        if (each.stream == stream)
            same = &each;
        else
            taken += each.blocks;
        ++i;
    }
    const uint32_t in_stream = std::max(blocks, same == nullptr ? 0 : same->blocks);
    if (taken + in_stream > this->blocks())
        return false;
    if (same == nullptr)
        spinning_.push_back(SpinningKernel{stream, blocks, ends});
    else
        *same = SpinningKernel{stream, in_stream, ends};
    return true;
}

} // namespace gpurun::transfer
