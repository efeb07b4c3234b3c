// The host memory that streams may touch: pinned allocations, and ranges that were registered.
//
// Not locked: Memory does that. find() allocates nothing.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace gpurun::device::emulated {

class HostRanges {
  public:
    struct Range {
        std::byte* base = nullptr;
        size_t bytes = 0;
        uint64_t id = 0;
        bool exportable = false;
    };

    // An allocation, of which the range is the beginning of `whole` bytes that nobody else has.
    void add_allocation(const Range& range, size_t whole);
    base::Result<void> remove_allocation(void* pointer); // kBuffer if there is none
    // kArgument if the range is not page-aligned or overlaps one that is known.
    base::Result<void> add(void* memory, size_t bytes, uint64_t id);
    base::Result<void> remove(void* memory);

    // The range that contains [pointer, pointer + bytes). kBuffer if only a part of that is in an allocation: where it
    // ends, another one may follow. What is registered only in part is not in any range.
    base::Result<std::optional<Range>> find(const void* pointer, size_t bytes) const;

  private:
    struct Entry {
        Range range;
        size_t allocated = 0; // 0: it was registered
    };
    using Ranges = std::map<uintptr_t, Entry>; // by first address; disjoint
    // The first range that ends behind `address`.
    Ranges::const_iterator first_behind(uintptr_t address) const;
    bool overlaps(uintptr_t first, size_t bytes) const;

    Ranges ranges_;
};

} // namespace gpurun::device::emulated
