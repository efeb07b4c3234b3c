// The mappings of one peer's allocations in this process.
//
// Opening costs 0.1 ms, or 10 ms from 1 GiB on, so mappings are kept: found again by the allocation's id, never by
// its address, which may since name another allocation. At most kLimit; the least recently used goes first. A
// mapping is closed when its exporter says that it frees the allocation (revoke), when an allocation at an overlapping
// address shows that it was freed, or at the end: once the last copy from it is done, and the device may be waited for,
// which closing may do. A graph holds one until it is gone, or until that address shows that it cannot run any more.
// Used under the engine lock.
#pragma once

#include "device/device.hpp"
#include "transfer/fence.hpp"
#include "transfer/record.hpp"
#include "transfer/still.hpp"

#include <cstdint>
#include <list>
#include <unordered_map>

namespace gpurun::transfer {

class ImportCache {
  public:
    static constexpr size_t kLimit = 256;

    // `fence` is that of messages from the peer: its backward edges say which copies are done.
    ImportCache(device::Device& device, Fence& fence, int peer, const KeepStill& keep_still)
        : device_(device), fence_(fence), peer_(peer), keep_still_(keep_still) {}
    ~ImportCache();

    // Whether nothing that cannot be closed yet is in the way.
    bool can_open(const SourceBuffer& source);
    // Maps the allocation of `source`'s message, unless it is. REQUIRES source.exportable.
    base::Result<void> open(const SourceBuffer& source);
    // Where `source`'s message lies here; the copy from it will signal backward edge `slot` with `value`.
    // REQUIRES source.exportable.
    base::Result<const std::byte*> address(const SourceBuffer& source, uint32_t slot, uint64_t value);
    // The same for a graph, which may read it at any time until release().
    base::Result<const std::byte*> hold(const SourceBuffer& source);
    void release(uint64_t allocation_id);
    // The exporter frees the allocation.
    void revoke(uint64_t allocation_id);
    // Closes what was revoked and is no longer read. Cheap when there is nothing.
    base::Result<void> sweep();
    base::Result<void> close_all();
    bool has(uint64_t allocation_id) const { return by_id_.count(allocation_id) != 0; }
    size_t size() const { return mappings_.size(); }

  private:
    struct Mapping {
        uint64_t id;
        uint64_t exporter_base;
        uint64_t bytes;
        void* base;
        uint32_t last_slot; // of the latest copy from it
        uint64_t last_value;
        bool revoked;
        uint32_t holders;
    };
    using Iterator = std::list<Mapping>::iterator;

    bool overlaps(const Mapping& mapping, const SourceBuffer& source) const;
    bool is_read(const Mapping& mapping);
    base::Result<void> close(Iterator mapping);
    base::Result<void> close_oldest();
    base::Result<void> close_overlapping(const SourceBuffer& source);
    base::Result<Iterator> find(const SourceBuffer& source);

    device::Device& device_;
    Fence& fence_;
    int peer_;
    const KeepStill& keep_still_;
    size_t revoked_ = 0;
    std::list<Mapping> mappings_; // most recently used first
    std::unordered_map<uint64_t, Iterator> by_id_;
};

} // namespace gpurun::transfer
