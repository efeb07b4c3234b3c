// Zeroed host memory that a device can be given: what a channel without memory in common keeps for one side of a pair.
#pragma once

#include "device/device.hpp"
#include "platform/shared_memory.hpp"

#include <memory>
#include <span>

namespace gpurun::transfer {

class OwnPages {
  public:
    static base::Result<std::unique_ptr<OwnPages>> create(device::Device& device, size_t bytes);
    ~OwnPages();
    OwnPages(const OwnPages&) = delete;
    OwnPages& operator=(const OwnPages&) = delete;

    // Streams can use it from now on.
    base::Result<void> pin();
    std::byte* data() const { return mapping_.data(); }
    std::span<std::byte> bytes() const { return {mapping_.data(), mapping_.size()}; }
    template <typename T>
    T* as() const {
        return reinterpret_cast<T*>(data());
    }

  private:
    OwnPages(device::Device& device, platform::Mapping mapping) : device_(device), mapping_(std::move(mapping)) {}

    device::Device& device_;
    const platform::Mapping mapping_;
    bool pinned_ = false;
};

} // namespace gpurun::transfer
