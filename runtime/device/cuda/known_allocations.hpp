// What the driver has said of addresses at which messages began lately. As long as an address has the same buffer id,
// which CUDA never gives twice in a process, its allocation is the same, and the driver need not be asked again.
//
// Bounded: the driver is asked again for addresses that were dropped. Any thread, without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gpurun::device::cuda {

class KnownAllocations {
  public:
    struct Allocation {
        uint64_t id;
        uintptr_t start;
        size_t size;
    };

    void keep(uintptr_t address, const Allocation& allocation) {
        Entry& entry = entry_of(address);
        uint64_t version = entry.version.load(std::memory_order_relaxed);
        // Odd: being written. Acquire, so that what is written below is not seen before it is odd.
        if (version % 2 != 0 || !entry.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire))
            return; // another thread writes there: one of the two is as good as the other
        std::atomic_thread_fence(std::memory_order_release); // pairs with the fence of find()
        entry.address.store(address, std::memory_order_relaxed);
        entry.id.store(allocation.id, std::memory_order_relaxed);
        entry.start.store(allocation.start, std::memory_order_relaxed);
        entry.size.store(allocation.size, std::memory_order_relaxed);
        entry.version.store(version + 2, std::memory_order_release); // pairs with the first load of find()
    }

    // What began in this allocation, which the program has freed but CUDA still has.
    void forget(uintptr_t start) {
        for (Entry& each : entries_) {
            uint64_t version = each.version.load(std::memory_order_relaxed);
            if (each.start.load(std::memory_order_relaxed) != start || version % 2 != 0 ||
                !each.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire))
                continue;
            std::atomic_thread_fence(std::memory_order_release); // as in keep()
            each.address.store(0, std::memory_order_relaxed);
            each.version.store(version + 2, std::memory_order_release);
        }
    }

    // As it was when it was kept.
    std::optional<Allocation> find(uintptr_t address) const {
        const Entry& entry = entry_of(address);
        const uint64_t version = entry.version.load(std::memory_order_acquire);
        if (version % 2 != 0 || entry.address.load(std::memory_order_relaxed) != address)
            return std::nullopt;
        const Allocation found{entry.id.load(std::memory_order_relaxed), entry.start.load(std::memory_order_relaxed),
                               entry.size.load(std::memory_order_relaxed)};
        std::atomic_thread_fence(std::memory_order_acquire);
        if (entry.version.load(std::memory_order_relaxed) != version)
            return std::nullopt;
        return found;
    }

  private:
    static constexpr size_t kEntries = 64;

    struct alignas(64) Entry {
        std::atomic<uint64_t> version{0};
        std::atomic<uintptr_t> address{0}; // 0: none
        std::atomic<uint64_t> id{0};
        std::atomic<uintptr_t> start{0};
        std::atomic<size_t> size{0};
    };

    // Buffers begin at whole units of 256 bytes or more, messages often of 8; both spread.
    static size_t place_of(uintptr_t address) { return (address >> 3 ^ address >> 8 ^ address >> 21) % kEntries; }
    Entry& entry_of(uintptr_t address) { return entries_[place_of(address)]; }
    const Entry& entry_of(uintptr_t address) const { return entries_[place_of(address)]; }

    std::array<Entry, kEntries> entries_;
};

} // namespace gpurun::device::cuda
