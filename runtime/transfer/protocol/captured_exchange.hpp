// What a call puts into a captured stream: it moves together in every run of the graph. What crosses in words is put
// and taken, or combined, in one operation. What stays with its source is reduced where it lies: the ranks meet, each
// combines what the others have, writes the result where these want it, and they part.
//
// Nothing of a graph runs while it is captured, so what is put and taken may be collected until the call ends: launch()
// comes then, and before anything that the call enqueues by itself. By the thread that captures.
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
    // Its next run to its place, behind what is put.
    base::Result<void> take(const device::Channel& channel, void* destination, size_t bytes, device::Stream stream);
    // Behind what is put and taken. Its end may still be awaited.
    base::Result<void> reduce(const Reduction& reduction, device::Stream stream);
    // Until the target has taken the run that was put; of words, before anything else is put or taken.
    base::Result<void> await_taken(const device::Channel& channel, device::Stream stream);
    // Whether what is reduced is combined without being taken to its place. REQUIRES that it is not launched yet.
    bool combines_as_it_comes() const;
    base::Result<void> launch() { return is_empty() ? base::Result<void>() : launch_all(); }
    // At once. Its run has begun. REQUIRES that nothing is collected, and that what takes it is enqueued next.
    base::Result<void> await_put(device::Channel& channel, device::Stream stream);

  private:
    bool is_empty() const {
        return puts_.empty() && signals_.empty() && takes_.empty() && awaited_.empty() && !reduction_;
    }
    base::Result<void> enter(device::Stream stream);
    base::Result<void> launch_all();
    base::Result<void> move();
    base::Result<void> exchange(std::span<const device::ChannelPut> puts, std::span<const device::ChannelTake> takes,
                                const device::ExchangeBlocks& blocks);
    base::Result<void> await_puts();
    base::Result<void> take_now(device::Channel channel, void* destination, size_t bytes);
    base::Result<void> launch_reduction();
    base::Result<void> reduce_in_channels();
    base::Result<void> reduce_in_place();

    device::Channels* const channels_;
    device::FusedReduce* const fused_reduce_;
    Pools& pools_;
    device::Stream stream_; // of all that follows
    std::vector<device::ChannelPut> puts_;
    std::vector<device::Channel> signals_;
    std::vector<device::ChannelTake> takes_;
    std::optional<Reduction> reduction_; // of the operands below
    std::vector<Operand> operands_;
    std::vector<device::Channel> awaited_;
};

} // namespace gpurun::transfer
