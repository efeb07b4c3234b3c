#include "device/cuda/address_record.hpp"

#include <algorithm>
#include <iterator>

namespace gpurun::device::cuda {

bool AddressRecord::note(uint64_t id, uintptr_t start, size_t size) {
    std::atomic<uint64_t>& recent = recent_ids_[id % kRecentIds];
    if (recent.load(std::memory_order_relaxed) == id || size == 0)
        return false;
    std::lock_guard lock(mutex_);
    const uintptr_t end = start + size;
    auto next = ranges_.lower_bound(start);
    if (next != ranges_.begin() && std::prev(next)->second > start)
        --next;
    while (next != ranges_.end() && next->first < end)
        next = ranges_.erase(next);
    if (ranges_.size() == kMostRanges)
        ranges_.erase(ranges_.begin());
    ranges_.emplace(start, end);
    lowest_.store(std::min(lowest_.load(std::memory_order_relaxed), start), std::memory_order_relaxed);
    highest_.store(std::max(highest_.load(std::memory_order_relaxed), end), std::memory_order_relaxed);
    recent.store(id, std::memory_order_relaxed);
    return true;
}

bool AddressRecord::contains(uintptr_t address) {
    if (address < lowest_.load(std::memory_order_relaxed) || address >= highest_.load(std::memory_order_relaxed))
        return false;
    std::lock_guard lock(mutex_);
    return find(address) != ranges_.end();
}

void AddressRecord::forget(uintptr_t address) {
    std::lock_guard lock(mutex_);
    if (auto range = find(address); range != ranges_.end())
        ranges_.erase(range);
}

AddressRecord::Ranges::iterator AddressRecord::find(uintptr_t address) {
    auto next = ranges_.upper_bound(address);
    if (next == ranges_.begin())
        return ranges_.end();
    auto range = std::prev(next);
    return address < range->second ? range : ranges_.end();
}

} // namespace gpurun::device::cuda
