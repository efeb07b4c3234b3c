#pragma once

#include "transfer/fence/fence.hpp"

#include <array>

namespace gpurun::test {

// A counter fence that only CPUs use.
class CpuFence final : public transfer::Fence {
  public:
    CpuFence() : transfer::Fence(slots_.data()) {}
    base::Result<void> signal(transfer::Edge, const transfer::Slot&, device::Stream) override { return {}; }
    base::Result<void> await(transfer::Edge, const transfer::Slot&, device::Stream) override { return {}; }
    base::Result<bool> reached(transfer::Edge edge, const transfer::Slot& slot) override {
        return counter(edge, slot).load() >= slot.value;
    }
    base::Result<bool> cut_short(transfer::Edge edge, const transfer::Slot& slot) override {
        const uint64_t now = counter(edge, slot).load();
        return platform::is_poisoned(now) && platform::reached_value(now) < slot.value;
    }
    // Whoever signals the edge has died, or is taken for dead.
    void poison(transfer::Edge edge, const transfer::Slot& slot) { counter(edge, slot).fetch_or(platform::kPoison); }
    bool edges_last() const override { return true; }

  private:
    std::array<platform::FenceSlot, platform::kFenceSlots> slots_{};
};

} // namespace gpurun::test
