// What a collective puts into a captured stream at the same time: it moves together in every run of the graph. Small
// messages are put, taken and combined in one operation. Longer ones stay with their sources: the ranks meet, each
// combines what the others have where it lies, writes the result where these want it, and they part.
//
// Nothing of a graph runs while it is captured, so what is put may be kept until it can be combined with what the
// others put: launch() comes before anything else that waits for a peer in the stream. By the thread that captures.
//
// One a rank; used under the engine lock.
#pragma once

#include "device/capability/fused_reduce.hpp"
#include "device/capability/reduce.hpp"
#include "transfer/pool/pools.hpp"

#include <optional>
#include <vector>

namespace gpurun::transfer {

class CapturedExchange {
  public:
    CapturedExchange(device::Device& device, Pools& pools)
        : channels_(device.channels()), fused_reduce_(device.fused_reduce()), pools_(pools) {}

    // What a rank has of another's contribution, which is matched.
    struct Operand {
        std::optional<device::Channel> channel; // of a message; none: this rank's own
        const void* buffer = nullptr;           // of the own one, or where that of a signal lies
        void* place = nullptr;                  // for its bytes, if they cannot be combined as they come
        void* answer = nullptr;                 // where its source wants the result, too

        bool in_channel() const { return channel && channel->bytes != 0; }
        bool is_signalled() const { return channel && channel->bytes == 0; }
    };
    struct Reduction {
        base::Reduction reduction;
        size_t count;
        void* result;
        std::span<const Operand> operands;
    };

    bool can_reduce() const { return channels_ != nullptr && fused_reduce_ != nullptr; }
    // Whether a reduction of so many operands can be made of what comes.
    static bool admits(size_t operands) { return operands <= device::kMostMet; }
    // The next run of the channel; a signal has no source.
    base::Result<void> put(const device::Channel& channel, const void* source, device::Stream stream);
    // Behind what is put. Its end may still be awaited.
    base::Result<void> reduce(const Reduction& reduction, device::Stream stream);
    // Until the target has taken the run of a signal that was put.
    base::Result<void> await_taken(const device::Channel& channel, device::Stream stream);
    // Whether what is reduced is combined without being taken to its place. REQUIRES that it is not launched yet.
    bool combines_as_it_comes() const;
    base::Result<void> launch();
    // At once. REQUIRES that nothing is collected.
    base::Result<void> take_now(device::Channel channel, void* destination, size_t bytes, device::Stream stream);
    // Its run has begun. What takes it is to be enqueued next.
    base::Result<void> await_put(device::Channel& channel, device::Stream stream);

  private:
    base::Result<void> enter(device::Stream stream);
    base::Result<void> put_all();
    base::Result<void> launch_reduction();
    base::Result<void> reduce_in_channels();
    base::Result<void> reduce_in_place();

    device::Channels* const channels_;
    device::FusedReduce* const fused_reduce_;
    Pools& pools_;
    device::Stream stream_; // of all that follows
    std::vector<device::GraphReduction::Put> puts_;
    std::vector<device::Channel> signals_;
    std::optional<Reduction> reduction_; // of the operands below
    std::vector<Operand> operands_;
    std::vector<device::Channel> awaited_;
};

} // namespace gpurun::transfer
