#pragma once

#include "transfer/fence.hpp"

#include <array>

namespace gpurun::test {

// A counter fence that only CPUs use.
class CpuFence final : public transfer::Fence {
  public:
    CpuFence() : transfer::Fence(slots_.data()) {}
    base::Result<void> signal(transfer::Edge, uint32_t, uint64_t, device::Stream) override { return {}; }
    base::Result<void> await(transfer::Edge, uint32_t, uint64_t, device::Stream) override { return {}; }
    base::Result<bool> reached(transfer::Edge edge, uint32_t slot, uint64_t value) override {
        return counter(edge, slot).load() >= value;
    }
    base::Result<bool> cut_short(transfer::Edge, uint32_t, uint64_t) override { return false; }

  private:
    std::array<platform::FenceSlot, platform::kFenceSlots> slots_{};
};

} // namespace gpurun::test
