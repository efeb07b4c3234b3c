// The raw copy's turn. One way, the partner copies from the leader and takes the time. Both ways, each copies from the
// other at once, and the slower counts. In graph order a sample's copies are in a graph of their own.
//
// In the host's order somebody waits for each message, so where devices copy, latency is that of a ping-pong: each rank
// copies from the other, waits for it, and says so by a message of a byte in host memory (0.1 to 0.4 us).

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
        if (latency && task.order == Order::kHost && copy_->by_device())
            return ping_pong(task, samples, into);
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
    void ping_pong(const Task& task, int samples, Samples& into) {
        pair_.meet();
        for (int i = 0; i < samples; ++i) {
            const double start = gpurun_wtime();
            for (int round = 0; round < task.batch; ++round) {
                if (pair_.leads())
                    pair_.go();
                pair_.await_go();
                copy_->copy_and_wait(task.bytes);
                if (!pair_.leads())
                    pair_.go();
            }
            if (pair_.leads())
                into[0].push_back((gpurun_wtime() - start) * 1e6 / (2.0 * task.batch));
        }
        pair_.meet();
    }

    Pair pair_;
    std::unique_ptr<RawCopy> copy_;
};

} // namespace

std::unique_ptr<Contender> make_copy(const Ground& ground) {
    const bool of_devices = on_device(ground.options.memory[0]) || on_device(ground.options.memory[1]);
    std::unique_ptr<RawCopy> copy;
    if (ground.device.kind == GPURUN_DEVICE_CUDA && of_devices)
        copy = make_cuda_copy(ground);
    if (copy == nullptr)
        copy = make_processor_copy(ground, of_devices);
    return std::make_unique<CopyContender>(ground.pair, std::move(copy));
}

} // namespace gpurun::bench
