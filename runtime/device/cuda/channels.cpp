// Messages of graphs: launching their kernels, which capture records.
#include "device/cuda/launch.hpp"

#include <algorithm>

namespace gpurun::device::cuda {

static_assert(kPlacesOfChannel == kChannelPlaces && kBytesOfLane == kLaneBytes);

namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kThreadsOfLanes = kMostLanes; // one for each lane
static_assert(kThreadsOfLanes % kWarp == 0 && kMetInGraph == kMostMet && kMostMet <= kWarp);
static_assert(kLanesOfBlock == kMostLanesOfBlock);

unsigned lane_threads(size_t bytes) { return mail_threads(std::min(bytes, kLaneBytes)); }

} // namespace

base::Result<ChannelArguments> CudaDevice::arguments(const Channel& channel) const {
    GPURUN_ASSIGN(const CUdeviceptr alive, device_address(channel.alive));
    GPURUN_ASSIGN(const CUdeviceptr cut, device_address(channel.cut));
    uint64_t* wait = nullptr;
    if (channel.wait != nullptr) {
        GPURUN_ASSIGN(const CUdeviceptr there, device_address(&channel.wait->runs));
        wait = address(there);
    }
    constexpr size_t kWordBytes = 16;
    return ChannelArguments{channel.places,
                            channel.taken,
                            channel.turns,
                            address(alive),
                            address(cut),
                            channel.bytes,
                            static_cast<uint32_t>(channel_lanes(channel.bytes)),
                            static_cast<uint32_t>(lane_words_bytes(channel.bytes) / kWordBytes),
                            wait};
}

base::Result<RunLogArguments> CudaDevice::log_arguments(const Channel& channel) const {
    static_assert(sizeof(platform::RunTimes) == kWordsOfRun * sizeof(uint64_t));
    if (channel.log == nullptr)
        return RunLogArguments{};
    const RunLog& log = *channel.log;
    GPURUN_ASSIGN(const CUdeviceptr places, device_address(reinterpret_cast<const Counter*>(log.places)));
    GPURUN_ASSIGN(const CUdeviceptr lost, device_address(log.lost));
    const uint32_t parts = (channel.first_of_run ? kFirstOfRun : 0) | (channel.last_of_run ? kLastOfRun : 0);
    return RunLogArguments{log.taken,         address(places),  log.room, address(lost),
                           channel.log_place, channel.log_name, parts};
}

template <typename Arguments>
base::Result<void> CudaDevice::launch(const Channel& channel, const ChannelKernel& kernel, unsigned grid,
                                      unsigned threads, const Arguments& arguments, Stream stream) const {
    if (channel.log == nullptr)
        return launch(kernel.plain, grid, threads, arguments, stream);
    GPURUN_ASSIGN(const RunLogArguments log, log_arguments(channel));
    return launch(kernel.logged, grid, threads, Logged<Arguments>{arguments, log}, stream);
}

base::Result<void> CudaDevice::channel_put(const Channel& channel, const void* source, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const ChannelArguments common, arguments(channel));
    return launch(channel, kernels_.put_in_channel, common.lanes, lane_threads(channel.bytes),
                  PutInChannelArguments{common, static_cast<const unsigned char*>(source)}, stream);
}

base::Result<void> CudaDevice::channel_await_taken(const Channel& channel, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const ChannelArguments common, arguments(channel));
    return launch(channel, kernels_.await_channel_taken, 1, kThreadsOfLanes, common, stream);
}

base::Result<void> CudaDevice::channel_take(const Channel& channel, void* destination, size_t bytes, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const ChannelArguments common, arguments(channel));
    return launch(channel, kernels_.take_from_channel, common.lanes, lane_threads(channel.bytes),
                  TakeFromChannelArguments{common, static_cast<unsigned char*>(destination), bytes}, stream);
}

base::Result<void> CudaDevice::channel_await_put(const Channel& channel, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const ChannelArguments common, arguments(channel));
    return launch(channel, kernels_.await_channel_put, 1, 1, common, stream);
}

base::Result<void> CudaDevice::channel_tell_taken(const Channel& channel, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const ChannelArguments common, arguments(channel));
    return launch(channel, kernels_.tell_channel_taken, 1, 1, common, stream);
}

base::Result<void> CudaDevice::channel_pull(const Channel& channel, void* destination, const void* source, size_t bytes,
                                            uint32_t* ticket, Stream stream) {
    const auto current = enter();
    GPURUN_ASSIGN(const ChannelArguments common, arguments(channel));
    return launch(channel, kernels_.pull_through_channel, copy_blocks(bytes), kCopyThreads,
                  PullThroughChannelArguments{common, destination, source, bytes, ticket}, stream);
}

base::Result<LoggedChannel> CudaDevice::logged_arguments(const Channel& channel) const {
    LoggedChannel both;
    GPURUN_ASSIGN(both.channel, arguments(channel));
    GPURUN_ASSIGN(both.log, log_arguments(channel));
    return both;
}

base::Result<LoggedPut> CudaDevice::logged_arguments(const ChannelPut& put) const {
    LoggedPut both;
    GPURUN_ASSIGN(both.put.channel, arguments(put.channel));
    GPURUN_ASSIGN(both.log, log_arguments(put.channel));
    both.put.source = static_cast<const unsigned char*>(put.source);
    return both;
}

base::Result<void> CudaDevice::logged_arguments(std::span<const Channel> channels, LoggedChannel* arguments,
                                                uint32_t& number) const {
    number = static_cast<uint32_t>(channels.size());
    for (size_t i = 0; i < channels.size(); ++i) {
        GPURUN_ASSIGN(arguments[i], logged_arguments(channels[i]));
    }
    return {};
}

base::Result<void> CudaDevice::channel_exchange(std::span<const ChannelPut> puts, std::span<const ChannelTake> takes,
                                                const ExchangeBlocks& blocks, Stream stream) {
    const auto current = enter();
    ExchangeInGraphArguments all; // what is not used is not read
    all.lanes_put = static_cast<uint32_t>(lanes_of_all(puts));
    all.lanes_taken = static_cast<uint32_t>(lanes_of_all(takes));
    all.is_logged = 0;
    unsigned threads = 0;
    for (size_t i = 0; i < puts.size(); ++i) {
        GPURUN_ASSIGN(all.puts[i], logged_arguments(puts[i]));
        all.is_logged |= puts[i].channel.log != nullptr ? 1 : 0;
        threads = std::max(threads, lane_threads(puts[i].channel.bytes));
    }
    for (size_t i = 0; i < takes.size(); ++i) {
        const auto& [channel, destination, bytes] = takes[i];
        GPURUN_ASSIGN(all.takes[i].take.channel, arguments(channel));
        GPURUN_ASSIGN(all.takes[i].log, log_arguments(channel));
        all.takes[i].take.destination = static_cast<unsigned char*>(destination);
        all.takes[i].take.bytes = bytes;
        all.is_logged |= channel.log != nullptr ? 1 : 0;
        threads = std::max(threads, lane_threads(channel.bytes));
    }
    all.putters = std::min(all.lanes_put, blocks.putting);
    all.takers = std::min(all.lanes_taken, blocks.taking);
    return launch(kernels_.exchange_in_graph, std::max(all.putters, all.takers), threads, all, stream);
}

base::Result<void> CudaDevice::channel_meet(std::span<const Channel> puts, std::span<const Channel> awaited,
                                            Stream stream) {
    const auto current = enter();
    MeetInGraphArguments all; // what is not used is not read
    GPURUN_TRY(logged_arguments(puts, all.puts, all.number_of_puts));
    GPURUN_TRY(logged_arguments(awaited, all.awaited, all.number_awaited));
    return launch(kernels_.meet_in_graph, 1, kFewestThreads, all, stream);
}

base::Result<void> CudaDevice::channel_part(std::span<const Channel> taken, std::span<const Channel> awaited,
                                            Stream stream) {
    const auto current = enter();
    PartInGraphArguments all; // what is not used is not read
    GPURUN_TRY(logged_arguments(taken, all.taken, all.number_taken));
    GPURUN_TRY(logged_arguments(awaited, all.awaited, all.number_awaited));
    return launch(kernels_.part_in_graph, 1, kFewestThreads, all, stream);
}

} // namespace gpurun::device::cuda
