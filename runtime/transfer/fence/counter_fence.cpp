// The counter fence: an edge is its number, written by stream memory operations where both CPUs and GPUs see it.
#include "transfer/fence/fence.hpp"

#include "platform/wake.hpp"

namespace gpurun::transfer {

using base::Result;

namespace {

class CounterFence final : public Fence {
  public:
    CounterFence(device::Counters& counters, platform::FenceSlot* slots) : Fence(slots), counters_(counters) {}

    Result<void> signal(Edge edge, const Slot& slot, device::Stream stream) override {
        return counters_.write_counter(stream, &counter(edge, slot), slot.value);
    }
    Result<void> await(Edge edge, const Slot& slot, device::Stream stream) override {
        // What the CPU has seen, everything enqueued from now on sees too.
        if (platform::load_published(counter(edge, slot)) >= slot.value)
            return {};
        return counters_.await_counter(stream, &counter(edge, slot), slot.value);
    }
    Result<bool> reached(Edge edge, const Slot& slot) override {
        return platform::load_published(counter(edge, slot)) >= slot.value;
    }
    Result<bool> cut_short(Edge edge, const Slot& slot) override {
        const uint64_t now = platform::load_published(counter(edge, slot));
        return platform::is_poisoned(now) && platform::reached_value(now) < slot.value;
    }
    bool edges_last() const override { return true; }

  private:
    device::Counters& counters_;
};

} // namespace

std::unique_ptr<Fence> make_counter_fence(device::Counters& counters, platform::FenceSlot* slots) {
    return std::make_unique<CounterFence>(counters, slots);
}

} // namespace gpurun::transfer
