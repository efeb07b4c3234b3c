// Addresses that CUDA has known, to tell freed device memory from host memory: CUDA says of both that it does not know
// them.
//
// Bounded, and only for error messages: a range that was dropped counts as host memory. Host memory may later be at
// such an address; then forget() is called. Any thread; note() takes no lock for an allocation that it has seen,
// contains() none for an address outside of all ranges.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace gpurun::device::cuda {

class AddressRecord {
  public:
    // `id` never names two allocations. Whether it may be new.
    bool note(uint64_t id, uintptr_t start, size_t size);
    bool contains(uintptr_t address);
    void forget(uintptr_t address);

  private:
    static constexpr size_t kMostRanges = 1024;
    static constexpr size_t kRecentIds = 256;

    using Ranges = std::map<uintptr_t, uintptr_t>; // start to end; disjoint
    Ranges::iterator find(uintptr_t address);

    // A filter in front of the lock; nothing else is published by these.
    std::array<std::atomic<uint64_t>, kRecentIds> recent_ids_{};
    std::atomic<uintptr_t> lowest_{UINTPTR_MAX};
    std::atomic<uintptr_t> highest_{0};

    std::mutex mutex_;
    Ranges ranges_;
};

} // namespace gpurun::device::cuda
