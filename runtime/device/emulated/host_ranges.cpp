#include "device/emulated/host_ranges.hpp"

#include "base/format.hpp"
#include "platform/shared_memory.hpp"

#include <algorithm>
#include <iterator>

namespace gpurun::device::emulated {

using base::Status;

void HostRanges::add_allocation(const Range& range, size_t whole) {
    ranges_.emplace(reinterpret_cast<uintptr_t>(range.base), Entry{range, whole});
}

base::Result<void> HostRanges::remove_allocation(void* pointer) {
    const auto found = ranges_.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == ranges_.end() || found->second.allocated == 0)
        return base::error(Status::kBuffer, "{} is not the start of a pinned allocation", pointer);
    ranges_.erase(found);
    return {};
}

base::Result<void> HostRanges::add(void* memory, size_t bytes, uint64_t id) {
    const auto first = reinterpret_cast<uintptr_t>(memory);
    if (memory == nullptr || first % platform::page_size() != 0 || bytes == 0 || bytes > UINTPTR_MAX - first)
        return base::error(Status::kArgument, "host memory to register must start on a page and not be empty");
    if (overlaps(first, bytes))
        return base::error(Status::kArgument, "the host memory at {} is registered already", memory);
    ranges_.emplace(first, Entry{{static_cast<std::byte*>(memory), bytes, id}});
    return {};
}

base::Result<void> HostRanges::remove(void* memory) {
    const auto found = ranges_.find(reinterpret_cast<uintptr_t>(memory));
    if (found == ranges_.end() || found->second.allocated != 0)
        return base::error(Status::kArgument, "the host memory at {} is not registered", memory);
    ranges_.erase(found);
    return {};
}

// An allocation has whole pages; nobody else has what is behind its bytes in the last one.
HostRanges::Ranges::const_iterator HostRanges::first_behind(uintptr_t address) const {
    const auto next = ranges_.upper_bound(address);
    if (next == ranges_.begin())
        return next;
    const auto& [first, entry] = *std::prev(next);
    return address - first < std::max(entry.range.bytes, entry.allocated) ? std::prev(next) : next;
}

base::Result<std::optional<HostRanges::Range>> HostRanges::find(const void* pointer, size_t bytes) const {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    auto each = first_behind(address);
    if (each == ranges_.end())
        return std::optional<Range>();
    if (each->first <= address && address - each->first < each->second.range.bytes &&
        bytes <= each->second.range.bytes - (address - each->first))
        return std::optional(each->second.range);
    for (; each != ranges_.end() && (each->first <= address || each->first - address < bytes); ++each)
        if (each->second.allocated != 0)
            return base::error(Status::kBuffer,
                               "{} bytes at {} are not all in the pinned allocation of {} bytes at {}: check the count "
                               "and the type",
                               bytes, pointer, each->second.range.bytes,
                               static_cast<const void*>(each->second.range.base));
    return std::optional<Range>();
}

bool HostRanges::overlaps(uintptr_t first, size_t bytes) const {
    const auto each = first_behind(first);
    return each != ranges_.end() && (each->first <= first || each->first - first < bytes);
}

} // namespace gpurun::device::emulated
