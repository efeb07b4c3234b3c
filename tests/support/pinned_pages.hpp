// Zeroed host memory that a device can be given: what a channel keeps for one side of a pair.
#pragma once

#include "device/device.hpp"
#include "support/unit.hpp"

#include <sys/mman.h>

namespace gpurun::test {

class PinnedPages {
  public:
    PinnedPages(device::Device& device, size_t bytes)
        : device_(device), bytes_((bytes + kPage - 1) / kPage * kPage),
          memory_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        REQUIRE(memory_ != MAP_FAILED);
    }
    ~PinnedPages() {
        if (pinned_)
            (void)device_.unregister_host(memory_);
        ::munmap(memory_, bytes_);
    }
    PinnedPages(const PinnedPages&) = delete;
    PinnedPages& operator=(const PinnedPages&) = delete;

    // Streams can use it from now on.
    base::Result<void> pin() {
        if (pinned_)
            return {};
        GPURUN_TRY(device_.register_host(memory_, bytes_));
        pinned_ = true;
        return {};
    }
    std::byte* data() const { return static_cast<std::byte*>(memory_); }
    template <typename T>
    T* as() const {
        return reinterpret_cast<T*>(memory_);
    }

  private:
    static constexpr size_t kPage = 4096;

    device::Device& device_;
    const size_t bytes_;
    void* const memory_;
    bool pinned_ = false;
};

} // namespace gpurun::test
