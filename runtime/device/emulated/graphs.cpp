// Graphs of the emulated device, and the operations on channels that are made to be captured.
#include "device/emulated/emulated_device.hpp"

#include "base/format.hpp"
#include "device/emulated/graph_body.hpp"

#include <algorithm>

namespace gpurun::device::emulated {

using base::Status;

base::Result<void> EmulatedDevice::begin_capture(Stream stream) {
    if (stream.native == nullptr)
        return base::error(Status::kStream, "the default stream cannot be captured: use one of gpurun_stream_create()");
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    return queue->begin_capture();
}

base::Result<uint64_t> EmulatedDevice::capture_number(Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    const std::shared_ptr<GraphBody> body = queue->captured();
    if (body == nullptr)
        return base::error(Status::kStream, "stream {} is not being captured", stream.address());
    return reinterpret_cast<uintptr_t>(body->handle().native);
}

base::Result<Graph> EmulatedDevice::end_capture(Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_ASSIGN(std::shared_ptr<GraphBody> body, queue->end_capture());
    GPURUN_TRY(streams_.give_streams(*body));
    const Graph graph = body->handle();
    const std::lock_guard lock(graphs_mutex_);
    graphs_.emplace(graph, std::move(body));
    return graph;
}

base::Result<void> EmulatedDevice::launch(Graph graph, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    std::shared_ptr<GraphBody> body;
    {
        const std::lock_guard lock(graphs_mutex_);
        const auto found = graphs_.find(graph);
        if (found != graphs_.end())
            body = found->second;
    }
    if (body == nullptr)
        return base::error(Status::kArgument, "{} is not a graph of this device, or was destroyed", graph.address());
    if (queue->captured())
        return base::error(Status::kUnsupported,
                           "a graph cannot be launched in a captured stream of an emulated device");
    const std::lock_guard launching(launching_);
    return body->launch(body, *queue);
}

base::Result<std::shared_ptr<GraphBody>> EmulatedDevice::take_graph(Graph graph) {
    const std::lock_guard lock(graphs_mutex_);
    const auto found = graphs_.find(graph);
    if (found == graphs_.end())
        return base::error(Status::kArgument, "{} is not a graph of this device, or was destroyed before",
                           graph.address());
    std::shared_ptr<GraphBody> body = std::move(found->second);
    graphs_.erase(found);
    destroyed_graphs_.push_back(body);
    return body;
}

base::Result<void> EmulatedDevice::destroy_graph(Graph graph) {
    GPURUN_ASSIGN(const std::shared_ptr<GraphBody> body, take_graph(graph)); // whose end may take a while
    return maybe_wait();
}

base::Result<void> EmulatedDevice::destroy_graph_later(Graph graph) {
    GPURUN_ASSIGN(std::shared_ptr<GraphBody> body, take_graph(graph));
    const std::lock_guard lock(graphs_mutex_);
    graphs_later_.push_back(std::move(body));
    return {};
}

std::unique_lock<std::mutex> EmulatedDevice::keep_graphs_still() {
    std::unique_lock still(launching_, std::try_to_lock);
    std::vector<std::shared_ptr<GraphBody>> looked_at; // not to end under the lock
    const std::lock_guard lock(graphs_mutex_);
    std::erase_if(destroyed_graphs_, [&](const std::weak_ptr<GraphBody>& each) {
        const std::shared_ptr<GraphBody>& body = looked_at.emplace_back(each.lock());
        return body == nullptr || !body->runs();
    });
    const bool run = !destroyed_graphs_.empty() ||
                     std::any_of(graphs_.begin(), graphs_.end(), [](const auto& each) { return each.second->runs(); });
    if (still && run)
        still.unlock();
    return still;
}

base::Result<void> EmulatedDevice::at_graph_end(Stream captured, void (*function)(void*), void* argument) {
    auto queue = streams_.find(captured);
    const std::shared_ptr<GraphBody> body = queue ? (*queue)->captured() : nullptr;
    if (body) {
        body->at_end(CallHost{function, argument});
        return {};
    }
    function(argument);
    return queue ? base::error(Status::kStream, "the stream is not being captured") : std::move(queue).error();
}

// ---- channels

base::Result<void> EmulatedDevice::check_channel(const Channel& channel, ChannelEnd end) {
    if (channel.bytes > kLargestInChannel)
        return base::error(Status::kArgument, "a channel carries up to {} bytes, not {}", kLargestInChannel,
                           channel.bytes);
    const bool target = end == ChannelEnd::kTarget;
    const size_t lanes_bytes = channel_lanes(channel.bytes) * sizeof(uint64_t);
    GPURUN_TRY(check_device_memory("channel", channel.places, kChannelPlaces * channel_place_bytes(channel.bytes), 16,
                                   target));
    GPURUN_TRY(check_device_memory("word", channel.taken, lanes_bytes, alignof(uint64_t), !target));
    GPURUN_TRY(check_device_memory("word", channel.turns, lanes_bytes, alignof(uint64_t), true));
    GPURUN_TRY(check_counter(channel.alive));
    GPURUN_TRY(check_counter(channel.cut));
    if (channel.wait != nullptr)
        GPURUN_TRY(check_times(channel.wait, sizeof *channel.wait));
    return channel.log != nullptr ? check_log(channel) : base::Result<void>();
}

base::Result<void> EmulatedDevice::check_log(const Channel& channel) {
    const RunLog& log = *channel.log;
    if (channel.log_name == 0 || log.room == 0)
        return base::error(Status::kArgument, "a log of runs has room, and what is told of there a name, neither of "
                                              "which is 0");
    GPURUN_TRY(check_device_memory("log", log.taken, sizeof *log.taken, alignof(uint64_t), true));
    GPURUN_TRY(check_device_memory("log", channel.log_place, sizeof *channel.log_place, alignof(uint64_t), true));
    GPURUN_TRY(check_times(log.places, log.room * sizeof *log.places));
    return check_times(log.lost, sizeof *log.lost);
}

base::Result<void> EmulatedDevice::channel_put(const Channel& channel, const void* source, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_channel(channel, ChannelEnd::kSource));
    if (channel.bytes != 0)
        GPURUN_TRY(stream_side(source, channel.bytes));
    return queue->enqueue(ChannelPut{channel, static_cast<const std::byte*>(source)});
}

base::Result<void> EmulatedDevice::channel_await_taken(const Channel& channel, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_channel(channel, ChannelEnd::kSource));
    return queue->enqueue(ChannelAwaitTaken{channel});
}

base::Result<void> EmulatedDevice::channel_take(const Channel& channel, void* destination, size_t bytes,
                                                Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_channel(channel, ChannelEnd::kTarget));
    if (bytes > channel.bytes)
        return base::error(Status::kArgument, "{} bytes cannot be taken of a message of {}", bytes, channel.bytes);
    if (bytes != 0)
        GPURUN_TRY(stream_side(destination, bytes));
    return queue->enqueue(ChannelTake{channel, static_cast<std::byte*>(destination), bytes, true, nullptr});
}

base::Result<void> EmulatedDevice::channel_await_put(const Channel& channel, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_channel(channel, ChannelEnd::kTarget));
    return queue->enqueue(ChannelTake{channel, nullptr, 0, false, nullptr});
}

base::Result<void> EmulatedDevice::channel_tell_taken(const Channel& channel, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_channel(channel, ChannelEnd::kTarget));
    return queue->enqueue(ChannelTellTaken{channel});
}

base::Result<void> EmulatedDevice::channel_pull(const Channel& channel, void* destination, const void* source,
                                                size_t bytes, uint32_t* ticket, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    GPURUN_TRY(check_channel(channel, ChannelEnd::kTarget));
    GPURUN_TRY(check_device_memory("ticket", ticket, sizeof *ticket, alignof(uint32_t), true));
    if (bytes != 0) {
        GPURUN_TRY(stream_side(destination, bytes));
        GPURUN_TRY(stream_side(source, bytes));
    }
    return queue->enqueue(
        ChannelTake{channel, static_cast<std::byte*>(destination), bytes, true, static_cast<const std::byte*>(source)});
}

namespace {

base::Result<void> check_number(size_t there, size_t back) {
    return std::max(there, back) <= kMostMet ? base::Result<void>()
                                             : base::error(Status::kArgument,
                                                           "up to {} channels are used at a time, "
                                                           "each way, not {}",
                                                           kMostMet, std::max(there, back));
}

base::Result<void> check_lanes(size_t lanes, uint32_t blocks) {
    return lanes <= blocks * kMostLanesOfBlock
               ? base::Result<void>()
               : base::error(Status::kArgument, "{} blocks cannot move {} lanes", blocks, lanes);
}

base::Result<void> check_signals(std::span<const Channel> channels) {
    for (const Channel& each : channels)
        if (each.bytes != 0)
            return base::error(Status::kArgument, "signals meet and part, not messages of {} bytes", each.bytes);
    return {};
}

} // namespace

base::Result<void> EmulatedDevice::channel_exchange(std::span<const device::ChannelPut> puts,
                                                    std::span<const device::ChannelTake> takes,
                                                    const device::ExchangeBlocks& blocks, Stream stream) {
    GPURUN_TRY(check_number(puts.size(), takes.size()));
    GPURUN_TRY(check_lanes(lanes_of_all(puts), blocks.putting));
    GPURUN_TRY(check_lanes(lanes_of_all(takes), blocks.taking));
    for (const device::ChannelPut& each : puts)
        GPURUN_TRY(channel_put(each.channel, each.source, stream));
    for (const device::ChannelTake& each : takes)
        GPURUN_TRY(channel_take(each.channel, each.destination, each.bytes, stream));
    return {};
}

base::Result<void> EmulatedDevice::channel_meet(std::span<const Channel> puts, std::span<const Channel> awaited,
                                                Stream stream) {
    GPURUN_TRY(check_number(puts.size(), awaited.size()));
    GPURUN_TRY(check_signals(puts));
    for (const Channel& each : puts)
        GPURUN_TRY(channel_put(each, nullptr, stream));
    for (const Channel& each : awaited)
        GPURUN_TRY(channel_await_put(each, stream));
    return {};
}

base::Result<void> EmulatedDevice::channel_part(std::span<const Channel> taken, std::span<const Channel> awaited,
                                                Stream stream) {
    GPURUN_TRY(check_number(taken.size(), awaited.size()));
    GPURUN_TRY(check_signals(taken));
    GPURUN_TRY(check_signals(awaited));
    for (const Channel& each : taken)
        GPURUN_TRY(channel_tell_taken(each, stream));
    for (const Channel& each : awaited)
        GPURUN_TRY(channel_await_taken(each, stream));
    return {};
}

base::Result<void> EmulatedDevice::reduce_in_graph(const GraphReduction& reduction, Stream stream) {
    GPURUN_ASSIGN(const std::shared_ptr<StreamQueue> queue, streams_.find(stream));
    const size_t bytes = reduction.bytes();
    if (bytes == 0 || reduction.puts.size() > kMostMet || reduction.operands.size() > kMostMet)
        return base::error(Status::kArgument, "a graph's reduction has elements, and puts and operands up to {}",
                           kMostMet);
    GPURUN_TRY(stream_side(reduction.result, bytes));
    ReduceChannels::Arguments arguments{reduction.reduction, reduction.count, reduction.result, {}};
    for (const auto& [channel, own] : reduction.operands) {
        arguments.operands.push_back({channel != nullptr ? std::optional(*channel) : std::nullopt, own});
        if (channel == nullptr) {
            GPURUN_TRY(stream_side(own, bytes));
            continue;
        }
        GPURUN_TRY(check_channel(*channel, ChannelEnd::kTarget));
        if (channel->bytes != bytes)
            return base::error(Status::kArgument, "an operand of {} bytes cannot come in a channel of {}", bytes,
                               channel->bytes);
    }
    for (const auto& [channel, source] : reduction.puts)
        GPURUN_TRY(channel_put(channel, source, stream));
    return queue->enqueue(ReduceChannels{std::make_shared<const ReduceChannels::Arguments>(std::move(arguments))});
}

} // namespace gpurun::device::emulated
