#include "device/cuda/pinned_allocations.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <iterator>

namespace gpurun::device::cuda {

using base::Status;

void PinnedAllocations::insert(void* pointer, size_t bytes, bool exportable) {
    const auto start = reinterpret_cast<uintptr_t>(pointer);
    const std::lock_guard lock(mutex_);
    all_[start] = {pointer, bytes, exportable, false};
    lowest_.store(std::min(lowest_.load(std::memory_order_relaxed), start), std::memory_order_relaxed);
    highest_.store(std::max(highest_.load(std::memory_order_relaxed), start + bytes), std::memory_order_relaxed);
}

PinnedAllocations::Allocations::iterator PinnedAllocations::find(void* pointer) {
    const auto found = all_.find(reinterpret_cast<uintptr_t>(pointer));
    return found == all_.end() || found->second.freed ? all_.end() : found;
}

bool PinnedAllocations::erase(void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto found = find(pointer);
    if (found == all_.end())
        return false;
    all_.erase(found);
    return true;
}

bool PinnedAllocations::free_later(void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto found = find(pointer);
    if (found == all_.end())
        return false;
    found->second.freed = true;
    return true;
}

std::vector<void*> PinnedAllocations::take_freed() {
    const std::lock_guard lock(mutex_);
    std::vector<void*> freed;
    for (auto each = all_.begin(); each != all_.end();) {
        if (each->second.freed)
            freed.push_back(reinterpret_cast<void*>(each->first));
        each = each->second.freed ? all_.erase(each) : std::next(each);
    }
    return freed;
}

base::Result<PinnedAllocations::Allocation> PinnedAllocations::check(const void* pointer, size_t bytes) const {
    const auto first = reinterpret_cast<uintptr_t>(pointer);
    const uintptr_t end = first + std::min(std::max<size_t>(bytes, 1), UINTPTR_MAX - first);
    if (end <= lowest_.load(std::memory_order_relaxed) || first >= highest_.load(std::memory_order_relaxed))
        return Allocation{};
    const std::lock_guard lock(mutex_);
    auto each = all_.upper_bound(first);
    if (each != all_.begin() && std::prev(each)->first + std::prev(each)->second.bytes > first)
        --each;
    if (each == all_.end() || each->first >= end)
        return Allocation{};
    const auto& [start, allocation] = *each;
    if (allocation.freed)
        return base::error(Status::kBuffer, "{} lies in pinned memory that has been freed", pointer);
    if (start <= first && end - start <= allocation.bytes)
        return allocation;
    return base::error(Status::kBuffer,
                       "{} bytes at {} are not all in the pinned allocation of {} bytes at {}: check the count and the "
                       "type",
                       bytes, pointer, allocation.bytes, reinterpret_cast<const void*>(start));
}

} // namespace gpurun::device::cuda
