#include "device/emulated/extents.hpp"

#include "base/check.hpp"

namespace gpurun::device::emulated {

Extents::Extents(size_t capacity, size_t granule) : capacity_(capacity), granule_(granule) {
    GPURUN_ASSERT((granule & (granule - 1)) == 0 && capacity % granule == 0);
    if (capacity > 0)
        add_hole(0, capacity);
}

std::optional<Extent> Extents::allocate(size_t bytes, uint64_t id) {
    GPURUN_ASSERT(bytes > 0);
    if (bytes > capacity_) // also keeps rounded() from overflowing
        return std::nullopt;
    const size_t taken = rounded(bytes);
    const auto fit = by_size_.lower_bound({taken, 0});
    if (fit == by_size_.end())
        return std::nullopt;
    const auto [hole_bytes, offset] = *fit;
    remove_hole(holes_.find(offset));
    if (hole_bytes > taken)
        add_hole(offset + taken, hole_bytes - taken);
    const Extent extent{offset, bytes, id};
    live_.emplace(offset, extent);
    return extent;
}

std::optional<Extent> Extents::find(size_t offset) const {
    auto next = live_.upper_bound(offset);
    if (next == live_.begin())
        return std::nullopt;
    const Extent& extent = (--next)->second;
    if (offset - extent.offset >= extent.bytes)
        return std::nullopt;
    return extent;
}

std::optional<Extent> Extents::retire(size_t offset) {
    const auto found = live_.find(offset);
    if (found == live_.end())
        return std::nullopt;
    const Extent extent = found->second;
    retired_.emplace(offset, rounded(extent.bytes));
    live_.erase(found);
    return extent;
}

void Extents::reclaim(size_t offset) {
    const auto found = retired_.find(offset);
    GPURUN_ASSERT(found != retired_.end());
    const size_t bytes = found->second;
    retired_.erase(found);
    add_hole(offset, bytes);
}

void Extents::add_hole(size_t offset, size_t bytes) {
    auto next = holes_.lower_bound(offset);
    if (next != holes_.end() && offset + bytes == next->first) {
        bytes += next->second;
        const auto merged = next++;
        remove_hole(merged);
    }
    if (next != holes_.begin()) {
        const auto previous = std::prev(next);
        if (previous->first + previous->second == offset) {
            offset = previous->first;
            bytes += previous->second;
            remove_hole(previous);
        }
    }
    holes_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
}

void Extents::remove_hole(std::map<size_t, size_t>::iterator hole) {
    by_size_.erase({hole->second, hole->first});
    holes_.erase(hole);
}

} // namespace gpurun::device::emulated
