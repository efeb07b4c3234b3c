// All memory that this process has on its emulated device, and the host memory that its streams may touch.
//
//   shareable arena   allocate(): the segment that peers map, behind its control area
//   ordered arena     allocate_ordered(): a segment whose descriptor never leaves the process; it passes for memory
//                     of another device, or for managed memory, where the options say so
//   host ranges       pinned and registered memory
//
// Both arenas together stay within the device's size. Any thread; describe() takes one shared lock and neither
// allocates nor enters the kernel unless it fails.
#pragma once

#include "device/emulated/arena.hpp"
#include "device/emulated/control.hpp"
#include "device/emulated/host_ranges.hpp"
#include "device/shared_host.hpp"
#include "device/types.hpp"

#include <memory>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

namespace gpurun::device::emulated {

class Memory {
  public:
    // `capacity` is rounded up to whole pages. `ordered`: what allocate_ordered() gives.
    static base::Result<std::unique_ptr<Memory>> create(size_t capacity, Placement ordered = Placement::kDevice);

    int fd() const { return shareable_.fd(); }
    size_t capacity() const { return capacity_; }
    const Control& control() const { return control_; }

    base::Result<void*> allocate(size_t bytes);
    base::Result<void> free(void* pointer);
    base::Result<void*> allocate_ordered(size_t bytes);
    // The two halves of free_ordered(): at the call, and when the stream gets there.
    base::Result<Arena::Block> retire_ordered(void* pointer);
    void reclaim_ordered(const Arena::Block& retired);
    base::Result<void*> allocate_pinned(size_t bytes);
    base::Result<void> free_pinned(void* pointer);
    base::Result<void> register_host(void* memory, size_t bytes);
    base::Result<void> unregister_host(void* memory);

    base::Result<Buffer> describe(const void* pointer, size_t bytes) const;
    base::Result<MemoryHandle> export_memory(const Buffer& buffer);
    // Of another process's pinned memory, which is registered here then.
    base::Result<void*> import_host_memory(const MemoryHandle& handle);
    std::optional<base::Result<void>> close_host_memory(void* imported); // nothing if it is none

  private:
    Memory(Arena shareable, Arena ordered, Placement ordered_placement, Control control, size_t capacity)
        : shareable_(std::move(shareable)), ordered_(std::move(ordered)), ordered_placement_(ordered_placement),
          control_(std::move(control)), capacity_(capacity) {}
    base::Result<void*> allocate_in(Arena& arena, size_t bytes);
    base::Result<Buffer> describe_in(const Arena& arena, Placement placement, const void* pointer, size_t bytes) const;
    void give_back(Arena& arena, const Arena::Block& retired);

    mutable std::shared_mutex mutex_; // guards everything below but the arenas' descriptors and control_
    Arena shareable_;
    Arena ordered_;
    const Placement ordered_placement_;
    HostRanges host_;
    SharedHostMemory host_memory_; // that is pinned; has a lock of its own
    Control control_;
    Slots export_slots_{kExports};
    std::unordered_map<uint64_t, uint32_t> exports_; // id to slot, of exported allocations that live
    size_t capacity_;
    size_t used_ = 0; // of both arenas, in whole pages
    uint64_t next_id_ = 1;
};

} // namespace gpurun::device::emulated
