#include "transfer/protocol/captured_exchange.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace gpurun::transfer {

using base::Result;
using device::Channel;

namespace {

// That a block takes one after the other. One message is faster if it is awaited first, and then has blocks for each
// lane.
constexpr size_t kLanesInTurn = 4;
static_assert(kLanesInTurn <= device::kMostLanesOfBlock && device::kMostMet <= device::kMostLanesOfBlock);

// That move several messages and may wait, if only for what is on its way: no more, over all ranks on the device, than
// the longest of them has by itself, or than some multiple of those that wait for long.
template <typename Message>
uint32_t blocks_for(const std::vector<Message>& messages, uint32_t waiting) {
    size_t longest = 0;
    for (const Message& each : messages)
        longest = std::max(longest, device::channel_lanes(each.channel.bytes));
    return static_cast<uint32_t>(std::max<size_t>(longest, kLanesInTurn * waiting));
}

} // namespace

// What is collected in another stream, or waits for what others put, goes first.
Result<void> CapturedExchange::enter(device::Stream stream) {
    if (stream != stream_ || reduction_ || !takes_.empty() || !awaited_.empty())
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

// Nothing is written over before it is put.
Result<void> CapturedExchange::take(const Channel& channel, void* destination, size_t bytes, device::Stream stream) {
    const auto* const first = static_cast<const std::byte*>(destination);
    const auto overlaps = [&](const device::ChannelPut& put) {
        const auto* const source = static_cast<const std::byte*>(put.source);
        return std::less()(source, first + bytes) && std::less()(first, source + put.channel.bytes);
    };
    if (stream != stream_ || reduction_ || takes_.size() == device::kMostMet || !awaited_.empty() ||
        std::any_of(puts_.begin(), puts_.end(), overlaps))
        GPURUN_TRY(launch());
    stream_ = stream;
    takes_.push_back({channel, destination, bytes});
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
    if (stream != stream_ || awaited_.size() == device::kMostMet || channel.bytes != 0)
        GPURUN_TRY(launch());
    if (channel.bytes != 0)
        return channels_->channel_await_taken(channel, stream);
    stream_ = stream;
    awaited_.push_back(channel);
    return {};
}

Result<void> CapturedExchange::launch_all() {
    auto launched = reduction_ ? launch_reduction() : move();
    puts_.clear();
    signals_.clear();
    takes_.clear();
    reduction_.reset();
    operands_.clear();
    awaited_.clear();
    return launched;
}

Result<void> CapturedExchange::await_put(Channel& channel, device::Stream stream) {
    channel.last_of_run = false;
    GPURUN_TRY(channels_->channel_await_put(channel, stream));
    channel.first_of_run = false;
    channel.last_of_run = true;
    return {};
}

// Where there is much to take, it is taken when all of it has begun to come. With blocks for all of it that wait, those
// of several ranks could leave no processor on which what they wait for can run.
Result<void> CapturedExchange::move() {
    for (const Channel& each : signals_)
        puts_.push_back({each, nullptr});
    const uint32_t waiting = pools_.kernels.blocks_in_graph();
    const uint32_t putting = blocks_for(puts_, waiting);
    const size_t lanes_in_turn = takes_.size() == 1 ? 1 : kLanesInTurn;
    if (device::lanes_of_all<device::ChannelTake>(takes_) <= waiting * lanes_in_turn) {
        GPURUN_TRY(exchange(puts_, takes_, {putting, waiting}));
    } else {
        GPURUN_TRY(exchange(puts_, {}, {putting, 0}));
        GPURUN_TRY(await_puts());
        GPURUN_TRY(exchange({}, takes_, {0, blocks_for(takes_, waiting)}));
    }
    if (awaited_.empty())
        return {};
    return awaited_.size() == 1 ? channels_->channel_await_taken(awaited_.front(), stream_)
                                : channels_->channel_part({}, awaited_, stream_);
}

// One message each way between two GPUs is faster in two: what crosses is there by the time the second looks for it,
// and a block that looks again and again sees it later.
Result<void> CapturedExchange::exchange(std::span<const device::ChannelPut> puts,
                                        std::span<const device::ChannelTake> takes,
                                        const device::ExchangeBlocks& blocks) {
    if (puts.empty() && takes.empty())
        return {};
    if (puts.size() == 1 && takes.size() == 1 && !pools_.kernels.shares_device()) {
        GPURUN_TRY(exchange(puts, {}, blocks));
        return exchange({}, takes, blocks);
    }
    if (puts.size() == 1 && takes.empty())
        return channels_->channel_put(puts[0].channel, puts[0].source, stream_);
    if (takes.size() == 1 && puts.empty() && device::channel_lanes(takes[0].channel.bytes) <= blocks.taking)
        return channels_->channel_take(takes[0].channel, takes[0].destination, takes[0].bytes, stream_);
    return channels_->channel_exchange(puts, takes, blocks, stream_);
}

// The first operation of their runs, behind which comes the last.
Result<void> CapturedExchange::await_puts() {
    if (takes_.size() == 1)
        return await_put(takes_[0].channel, stream_);
    std::vector<Channel> awaited;
    for (device::ChannelTake& each : takes_) {
        each.channel.last_of_run = false;
        awaited.push_back(each.channel);
        each.channel.first_of_run = false;
        each.channel.last_of_run = true;
    }
    return channels_->channel_meet({}, awaited, stream_);
}

Result<void> CapturedExchange::take_now(Channel channel, void* destination, size_t bytes) {
    if (device::channel_lanes(bytes) > pools_.kernels.blocks_in_graph())
        GPURUN_TRY(await_put(channel, stream_));
    return channels_->channel_take(channel, destination, bytes, stream_);
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
            GPURUN_TRY(take_now(*each.channel, each.place, each.channel->bytes));
    }
    device::FusedReduction reduction{reduction_->reduction, reduction_->count, reduction_->result,
                                     std::span(operands).first(operands_.size())};
    reduction.blocks = device::kMostReducingBlocks;
    GPURUN_TRY(fused_reduce_->put_and_reduce({}, reduction, stream_));
    return channels_->channel_part(parted, awaited_, stream_);
}

} // namespace gpurun::transfer
