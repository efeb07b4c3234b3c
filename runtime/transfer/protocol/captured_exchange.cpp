#include "transfer/protocol/captured_exchange.hpp"

#include <algorithm>
#include <array>

namespace gpurun::transfer {

using base::Result;
using device::Channel;

// What is collected in another stream, or behind a reduction, goes first.
Result<void> CapturedExchange::enter(device::Stream stream) {
    if (stream != stream_ || reduction_)
        GPURUN_TRY(launch());
    stream_ = stream;
    return {};
}

Result<void> CapturedExchange::put(const Channel& channel, const void* source, device::Stream stream) {
    GPURUN_TRY(enter(stream));
    if (puts_.size() + signals_.size() == device::kMostMet)
        GPURUN_TRY(launch());
    if (channel.bytes != 0)
        puts_.push_back({channel, source});
    else
        signals_.push_back(channel);
    return {};
}

Result<void> CapturedExchange::reduce(const Reduction& reduction, device::Stream stream) {
    GPURUN_TRY(enter(stream));
    operands_.assign(reduction.operands.begin(), reduction.operands.end());
    reduction_ = reduction;
    reduction_->operands = {};
    return {};
}

Result<void> CapturedExchange::await_taken(const Channel& channel, device::Stream stream) {
    if (stream != stream_ || awaited_.size() == device::kMostMet)
        GPURUN_TRY(launch());
    stream_ = stream;
    awaited_.push_back(channel);
    return {};
}

Result<void> CapturedExchange::launch() {
    auto launched = reduction_ ? launch_reduction() : put_all();
    puts_.clear();
    signals_.clear();
    reduction_.reset();
    operands_.clear();
    awaited_.clear();
    return launched;
}

// A kernel of many blocks is launched when what it waits for has begun: where several ranks' wait on a device, they
// could leave no processor on which that can run.
Result<void> CapturedExchange::take_now(Channel channel, void* destination, size_t bytes, device::Stream stream) {
    if (device::channel_lanes(bytes) > pools_.kernels.blocks_in_graph())
        GPURUN_TRY(await_put(channel, stream));
    return channels_->channel_take(channel, destination, bytes, stream);
}

// The first operation of its run, behind which comes the last.
Result<void> CapturedExchange::await_put(Channel& channel, device::Stream stream) {
    channel.last_of_run = false;
    GPURUN_TRY(channels_->channel_await_put(channel, stream));
    channel.first_of_run = false;
    channel.last_of_run = true;
    return {};
}

Result<void> CapturedExchange::put_all() {
    for (const auto& [channel, source] : puts_)
        GPURUN_TRY(channels_->channel_put(channel, source, stream_));
    if (!signals_.empty())
        GPURUN_TRY(channels_->channel_meet(signals_, {}, stream_));
    return awaited_.empty() ? Result<void>() : channels_->channel_part({}, awaited_, stream_);
}

bool CapturedExchange::combines_as_it_comes() const {
    const auto own =
        std::count_if(operands_.begin(), operands_.end(), [](const Operand& each) { return !each.channel; });
    return signals_.empty() && awaited_.empty() && own <= 1 &&
           std::none_of(operands_.begin(), operands_.end(), [](const Operand& each) { return each.is_signalled(); });
}

Result<void> CapturedExchange::launch_reduction() {
    return combines_as_it_comes() ? reduce_in_channels() : reduce_in_place();
}

Result<void> CapturedExchange::reduce_in_channels() {
    std::array<device::GraphReduction::Operand, device::kMostMet> operands;
    for (size_t i = 0; i < operands_.size(); ++i)
        operands[i] = {operands_[i].channel ? &*operands_[i].channel : nullptr, operands_[i].buffer};
    return fused_reduce_->reduce_in_graph({reduction_->reduction, reduction_->count, reduction_->result, puts_,
                                           std::span(operands).first(operands_.size()),
                                           pools_.kernels.blocks_in_graph()},
                                          stream_);
}

// A run is told of by its first operation here, and its last, when the ranks part.
Result<void> CapturedExchange::reduce_in_place() {
    for (const auto& [channel, source] : puts_)
        GPURUN_TRY(channels_->channel_put(channel, source, stream_));
    std::vector<Channel> met, parted;
    for (const Operand& each : operands_) {
        if (!each.is_signalled())
            continue;
        met.push_back(*each.channel);
        met.back().last_of_run = false;
        parted.push_back(*each.channel);
        parted.back().first_of_run = false;
    }
    GPURUN_TRY(channels_->channel_meet(signals_, met, stream_));
    std::array<device::FusedReduction::Operand, device::kMostMet> operands;
    for (size_t i = 0; i < operands_.size(); ++i) {
        const Operand& each = operands_[i];
        operands[i].buffer = each.in_channel() ? each.place : each.buffer;
        operands[i].answer = each.answer;
        if (each.in_channel())
            GPURUN_TRY(take_now(*each.channel, each.place, each.channel->bytes, stream_));
    }
    device::FusedReduction reduction{reduction_->reduction, reduction_->count, reduction_->result,
                                     std::span(operands).first(operands_.size())};
    reduction.blocks = device::kMostReducingBlocks;
    GPURUN_TRY(fused_reduce_->put_and_reduce({}, reduction, stream_));
    return channels_->channel_part(parted, awaited_, stream_);
}

} // namespace gpurun::transfer
