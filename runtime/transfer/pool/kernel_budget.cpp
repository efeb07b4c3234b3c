#include "transfer/pool/kernel_budget.hpp"

#include <algorithm>

namespace gpurun::transfer {

bool KernelBudget::admits(device::Stream stream, uint32_t blocks, const device::Counter& done, uint64_t value) {
    SpinningKernel* same = nullptr;
    uint32_t taken = 0;
    for (size_t i = 0; i < spinning_.size();) {
        SpinningKernel& each = spinning_[i];
        if (each.done->load(std::memory_order_relaxed) >= each.value) {
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
    if (taken + in_stream > blocks_)
        return false;
    if (same == nullptr)
        spinning_.push_back(SpinningKernel{stream, blocks, &done, value});
    else
        *same = SpinningKernel{stream, in_stream, &done, value};
    return true;
}

} // namespace gpurun::transfer
