// The pinned memory that this process has from CudaDevice::allocate_pinned(), to the byte: CUDA tells of whole pages,
// and knows nothing of what is to be freed later. Any thread; check() takes no lock for addresses outside of all.
#pragma once

#include "base/status.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace gpurun::device::cuda {

class PinnedAllocations {
  public:
    void insert(void* pointer, size_t bytes, bool exportable);
    // False if there is none that starts here, or it is to be freed later.
    bool erase(void* pointer);
    bool free_later(void* pointer);
    std::vector<void*> take_freed(); // which are no longer known then

    struct Allocation {
        void* base = nullptr; // null: there is none
        size_t bytes = 0;
        bool exportable = false;
        bool freed = false;
    };
    // The one that [pointer, pointer + bytes) lies in, if there is one. kBuffer if only a part of it lies in an
    // allocation, or in one that is to be freed later.
    base::Result<Allocation> check(const void* pointer, size_t bytes) const;

  private:
    using Allocations = std::map<uintptr_t, Allocation>; // by start; disjoint
    Allocations::iterator find(void* pointer);

    std::atomic<uintptr_t> lowest_{UINTPTR_MAX}; // a filter in front of the lock
    std::atomic<uintptr_t> highest_{0};
    mutable std::mutex mutex_;
    Allocations all_;
};

} // namespace gpurun::device::cuda
