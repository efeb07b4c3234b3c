// Which parts of a range of bytes are allocated: offsets only, no memory of its own.
//
// Best fit, whole granules, neighbours merged. A live extent has an id that no later one gets, so that a caller
// can tell a new allocation from an old one at the same place. free() takes two steps for memory that is freed in
// stream order: retire() ends the allocation's life at once, reclaim() makes its place available again.
//
// Not locked: the owner does that. find() allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace gpurun::device::emulated {

struct Extent {
    size_t offset = 0;
    size_t bytes = 0; // as asked for; the extent ends at the next granule
    uint64_t id = 0;
};

class Extents {
  public:
    // REQUIRES: `capacity` is a multiple of `granule`, a power of two.
    Extents(size_t capacity, size_t granule);

    // Nothing if no hole is large enough. REQUIRES bytes > 0.
    std::optional<Extent> allocate(size_t bytes, uint64_t id);
    // The live extent that contains `offset`.
    std::optional<Extent> find(size_t offset) const;
    // Ends the life of the extent that starts at `offset`; nothing if there is none.
    std::optional<Extent> retire(size_t offset);
    // REQUIRES: `offset` was retired and not reclaimed since.
    void reclaim(size_t offset);

    size_t rounded(size_t bytes) const { return (bytes + granule_ - 1) & ~(granule_ - 1); }

  private:
    void add_hole(size_t offset, size_t bytes);
    void remove_hole(std::map<size_t, size_t>::iterator hole);

    size_t capacity_;
    size_t granule_;
    std::map<size_t, Extent> live_;
    std::map<size_t, size_t> retired_; // offset, rounded size
    std::map<size_t, size_t> holes_;   // offset, size: no two touch
    std::set<std::pair<size_t, size_t>> by_size_;
};

} // namespace gpurun::device::emulated
