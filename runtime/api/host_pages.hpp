// Pages of host memory that calls have found usable, so that a buffer which is used again costs no call of the device's
// or of the system's. Any thread: each place is one word, and publishes nothing.
#pragma once

#include "device/device.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpurun::api {

// What a call does with a buffer.
enum class Access { kRead, kWrite };

// Bytes of a buffer of which every page is remembered. A message of more takes ten times as long as asking whether it
// is mapped.
constexpr size_t kLookedAtOnce = 64 * 1024;

// The pages of a buffer, by their numbers. REQUIRES bytes != 0.
struct PageRange {
    static constexpr int kPageBits = 12;

    PageRange(const void* buffer, size_t bytes)
        : first(reinterpret_cast<uintptr_t>(buffer) >> kPageBits),
          last((reinterpret_cast<uintptr_t>(buffer) + bytes - 1) >> kPageBits) {}
    uint64_t first;
    uint64_t last;
};

// Remembers pages for as long as a version, which says what may be known of them, is the same.
class PageTable {
  public:
    bool has(const PageRange& pages, Access access, uint64_t version) const {
        uint64_t page = pages.first;
        do {
            if (!has(page, access, version))
                return false;
        } while (page++ != pages.last);
        return true;
    }
    bool has(uint64_t page, Access access, uint64_t version) const {
        return (place(page).load(std::memory_order_relaxed) ^ word(page, version, Access::kWrite)) <= mask(access);
    }
    void keep(const PageRange& pages, Access access, uint64_t version) {
        for (uint64_t page = pages.first; page <= pages.last; ++page)
            if (access == Access::kWrite || !has(page, Access::kWrite, version))
                place(page).store(word(page, version, access), std::memory_order_relaxed);
    }

  private:
    // In a word, from the high end: 37 bits of the page's number (of 48-bit addresses, with a bit to spare), 26 of the
    // version, one that says that it may be written.
    static constexpr int kPlaceBits = 13; // 32 MiB in use
    static constexpr uint64_t kVersions = uint64_t{1} << 26;

    static uint64_t word(uint64_t page, uint64_t version, Access access) {
        return page << 27 | version % kVersions << 1 | (access == Access::kWrite ? 1 : 0);
    }
    // By how much a word may differ from that of a page that may be written.
    static uint64_t mask(Access access) { return access == Access::kWrite ? 0 : 1; }
    std::atomic<uint64_t>& place(uint64_t page) { return places_[hash(page)]; }
    const std::atomic<uint64_t>& place(uint64_t page) const { return places_[hash(page)]; }
    // Neighbours have neighbouring places. The other bits are spread by Fibonacci hashing: buffers that lie a power of
    // two apart are common.
    static size_t hash(uint64_t page) {
        constexpr int kNear = 6;
        const uint64_t far = ((page >> kNear) * 0x9e3779b97f4a7c15) >> (64 - (kPlaceBits - kNear));
        return far << kNear | (page & ((uint64_t{1} << kNear) - 1));
    }

    std::array<std::atomic<uint64_t>, size_t{1} << kPlaceBits> places_{};
};

class HostPages {
  public:
    explicit HostPages(const device::Device& device) : changes_(device.host_memory_changes()) {}

    // Before the look-ups whose result is to be kept.
    uint64_t version() const { return changes_ != nullptr ? changes_->load(std::memory_order_acquire) : 0; }

    // Whether the buffer is the program's host memory, and usable: as long as the device says that nothing has changed
    // (Device::host_memory_changes()). Where it does not say, nothing is known. Of memory that the program unmaps or
    // protects later, see host_memory.hpp. REQUIRES bytes != 0.
    bool know(const void* buffer, size_t bytes, Access access) const {
        return changes_ != nullptr && known_.has(PageRange(buffer, bytes), access, version());
    }
    void keep(const void* buffer, size_t bytes, Access access, uint64_t seen) {
        if (changes_ != nullptr && bytes <= kLookedAtOnce)
            known_.keep(PageRange(buffer, bytes), access, seen);
    }

    // Pages that the system has said to be usable, whosoever they are.
    PageTable& usable() { return usable_; }

  private:
    const std::atomic<uint64_t>* const changes_;
    PageTable known_;
    PageTable usable_;
};

} // namespace gpurun::api
