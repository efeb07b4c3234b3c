// Ranges that a thread has found to be ordinary host memory, so that a buffer that is used again is not looked up under
// the device's locks. All are dropped whenever something is pinned, registered, imported, or one of these is undone.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpurun::device::emulated {

class PageableMemo {
  public:
    // Shared by all devices of the process: which memory is ordinary is no device's own affair.
    static uint64_t version() { return changes().load(std::memory_order_acquire); }
    static std::atomic<uint64_t>& changes() {
        static constinit std::atomic<uint64_t> counter{1};
        return counter;
    }
    // After a change, before anybody can use what it has made.
    static void forget() { changes().fetch_add(1, std::memory_order_release); }

    static bool knows(const void* pointer, size_t bytes) {
        const auto first = reinterpret_cast<uintptr_t>(pointer);
        const Range& range = place(first);
        return range.version == version() && range.first <= first && bytes <= range.end - first && first < range.end;
    }
    // `seen`: version() before the look-up that found it.
    static void remember(const void* pointer, size_t bytes, uint64_t seen) {
        const auto first = reinterpret_cast<uintptr_t>(pointer);
        const uintptr_t end = first + bytes;
        Range& range = place(first);
        if (range.version == seen && first <= range.end && range.first <= end) // buffers side by side become one
            range = Range{seen, std::min(range.first, first), std::max(range.end, end)};
        else
            range = Range{seen, first, end};
    }

  private:
    struct Range {
        uint64_t version = 0;
        uintptr_t first = 0;
        uintptr_t end = 0;
    };
    static constexpr size_t kPlaces = 64; // 2 to the 6
    static constexpr int kPageBits = 12;

    static Range& place(uintptr_t first) {
        static thread_local std::array<Range, kPlaces> ranges{};
        return ranges[((first >> kPageBits) * 0x9e3779b97f4a7c15) >> 58]; // Fibonacci hashing to kPlaces
    }
};

} // namespace gpurun::device::emulated
