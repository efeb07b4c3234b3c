// The raw copy's turn. One way, the partner copies from the leader and takes the time. Both ways, each copies from the
// other at once, and the slower counts. In graph order a sample's copies are in a graph of their own.

#include "raw_copy.hpp"

#include "call.hpp"

namespace gpurun::bench {

namespace {

class CopyContender final : public Contender {
  public:
    CopyContender(const Pair& pair, std::unique_ptr<RawCopy> copy) : pair_(pair), copy_(std::move(copy)) {}

    std::string how() const override { return copy_->how(); }

    void turn(const Task& task, int samples, Samples& into) override {
        // A round trip of the ping-pong is two messages one way: a batch of rounds is a copy for each round.
        const bool latency = task.test == Test::kLatency;
        const bool captured = task.order == Order::kGraph;
        const int batch = latency ? task.batch : 1;
        const Copies copies{task.bytes, captured && latency ? batch : task.window, task.slots(), captured};
        for (int i = 0; i < (captured ? samples : samples * batch); ++i) {
            if (both_ways(task.test)) {
                pair_.meet();
                const double us = pair_.larger(copy_->copy_us(copies));
                if (pair_.leads())
                    into[0].push_back(us);
            } else if (!pair_.leads()) {
                into[0].push_back(copy_->copy_us(copies) / (captured ? batch : 1));
            }
        }
        pair_.meet(); // the leader waits without using its device
    }

  private:
    Pair pair_;
    std::unique_ptr<RawCopy> copy_;
};

} // namespace

std::unique_ptr<Contender> make_copy(const Ground& ground) {
    const auto on_device = [](Memory memory) { return memory == Memory::kDevice || memory == Memory::kDeviceAsync; };
    const auto& sides = ground.options.memory;
    std::unique_ptr<RawCopy> copy;
    if (ground.device.kind == GPURUN_DEVICE_CUDA && (on_device(sides[0]) || on_device(sides[1])))
        copy = make_cuda_copy(ground);
    if (copy == nullptr)
        copy = make_processor_copy(ground);
    return std::make_unique<CopyContender>(ground.pair, std::move(copy));
}

} // namespace gpurun::bench
