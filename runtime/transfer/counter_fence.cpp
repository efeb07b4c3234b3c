// The counter fence: an edge is its number, written by stream memory operations where both CPUs and GPUs see it.
#include "transfer/fence.hpp"

#include "platform/wake.hpp"

namespace gpurun::transfer {

using base::Result;

namespace {

class CounterFence final : public Fence {
  public:
    CounterFence(device::Device& device, platform::FenceSlot* slots) : Fence(slots), device_(device) {}

    Result<void> signal(Edge edge, uint32_t slot, uint64_t value, device::Stream stream) override {
        return device_.write_counter(stream, &counter(edge, slot), value);
    }

    Result<void> await(Edge edge, uint32_t slot, uint64_t value, device::Stream stream) override {
        // What the CPU has seen, everything enqueued from now on sees too.
        if (platform::load_published(counter(edge, slot)) >= value)
            return {};
        return device_.await_counter(stream, &counter(edge, slot), value);
    }

    Result<bool> reached(Edge edge, uint32_t slot, uint64_t value) override {
        return platform::load_published(counter(edge, slot)) >= value;
    }

    Result<bool> cut_short(Edge edge, uint32_t slot, uint64_t value) override {
        const uint64_t now = platform::load_published(counter(edge, slot));
        return platform::is_poisoned(now) && platform::reached_value(now) < value;
    }

  private:
    device::Device& device_;
};

} // namespace

std::unique_ptr<Fence> make_counter_fence(device::Device& device, const platform::Mapping& fences) {
    return std::make_unique<CounterFence>(device, reinterpret_cast<platform::FenceSlot*>(fences.data()));
}

} // namespace gpurun::transfer
