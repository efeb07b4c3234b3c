// Pages that calls have found to be host memory which they can use, so that a buffer which is used again is looked up
// without a call of the device's or of the system's.
//
// A page is known as long as the device says that nothing has changed (Device::host_memory_changes()); where it does
// not say, nothing is kept. Of memory that the program unmaps or protects later, see host_memory.hpp. Any thread: each
// place is one word, and publishes nothing.
#pragma once

#include "base/limits.hpp"
#include "device/device.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpurun::api {

// What a call does with a buffer.
enum class Access { kRead, kWrite };

class HostPages {
  public:
    explicit HostPages(const device::Device& device) : changes_(device.host_memory_changes()) {}

    // Before the look-ups whose result is to be kept.
    uint64_t version() const { return changes_ != nullptr ? changes_->load(std::memory_order_acquire) : 0; }

    // False too where it is not known. REQUIRES bytes != 0.
    bool know(const void* buffer, size_t bytes, Access access) const {
        if (changes_ == nullptr)
            return false;
        const Range pages(buffer, bytes);
        const uint64_t seen = version();
        uint64_t page = pages.first;
        do {
            if ((place(page).load(std::memory_order_relaxed) ^ word(page, seen, Access::kWrite)) > mask(access))
                return false;
        } while (page++ != pages.last);
        return true;
    }
    void keep(const void* buffer, size_t bytes, Access access, uint64_t seen) {
        const Range pages(buffer, bytes);
        if (changes_ == nullptr || pages.last - pages.first > kMostPages)
            return;
        for (uint64_t page = pages.first; page <= pages.last; ++page)
            if (!know(address(page), 1, Access::kWrite) || access == Access::kWrite)
                place(page).store(word(page, seen, access), std::memory_order_relaxed);
    }

  private:
    // In a word, from the high end: 37 bits of the page's number (of 48-bit addresses, with a bit to spare), 26 of the
    // version, one that says that it may be written.
    static constexpr int kPageBits = 12;
    static constexpr int kPlaceBits = 10;
    static constexpr uint64_t kVersions = uint64_t{1} << 26;
    static constexpr uint64_t kMostPages = base::kMostEagerBytes >> kPageBits; // of a buffer that is looked up so often

    struct Range {
        Range(const void* buffer, size_t bytes)
            : first(reinterpret_cast<uintptr_t>(buffer) >> kPageBits),
              last((reinterpret_cast<uintptr_t>(buffer) + bytes - 1) >> kPageBits) {}
        uint64_t first;
        uint64_t last;
    };
    static const void* address(uint64_t page) { return reinterpret_cast<const void*>(page << kPageBits); }
    static uint64_t word(uint64_t page, uint64_t version, Access access) {
        return page << 27 | version % kVersions << 1 | (access == Access::kWrite ? 1 : 0);
    }
    // By how much a word may differ from that of a page that may be written.
    static uint64_t mask(Access access) { return access == Access::kWrite ? 0 : 1; }
    std::atomic<uint64_t>& place(uint64_t page) { return places_[hash(page)]; }
    const std::atomic<uint64_t>& place(uint64_t page) const { return places_[hash(page)]; }
    // Fibonacci hashing: buffers whose pages lie a power of two apart are common.
    static size_t hash(uint64_t page) { return (page * 0x9e3779b97f4a7c15) >> (64 - kPlaceBits); }

    const std::atomic<uint64_t>* const changes_;
    std::array<std::atomic<uint64_t>, size_t{1} << kPlaceBits> places_{};
};

} // namespace gpurun::api
