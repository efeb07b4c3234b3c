// Graphs and channels on a CUDA device whose driver is not there: what is launched, and what becomes of user objects.
#include "cuda_bench.hpp"

#include "device/cuda/kernel_arguments.hpp"
#include "device/cuda/launch_sizes.hpp"

#include <algorithm>

namespace gpurun::test {

using base::Status;
using namespace device::cuda;

namespace {

const CUgraph kGraph = reinterpret_cast<CUgraph>(0xb00);

device::Channel channel_of(size_t bytes) {
    device::Channel channel;
    channel.places = reinterpret_cast<std::byte*>(0x5000);
    channel.taken = reinterpret_cast<uint64_t*>(0x6000);
    channel.turns = reinterpret_cast<uint64_t*>(0x7000);
    channel.bytes = bytes;
    channel.alive = reinterpret_cast<device::Counter*>(0x8000);
    channel.cut = reinterpret_cast<device::Counter*>(0x8040);
    return channel;
}

void check_channel(const ChannelArguments& arguments, const device::Channel& channel, uintptr_t distance = 0) {
    CHECK(arguments.places == channel.places);
    CHECK(arguments.taken == channel.taken);
    CHECK(arguments.turns == channel.turns);
    CHECK(reinterpret_cast<uintptr_t>(arguments.alive) == 0x8000 + distance);
    CHECK(reinterpret_cast<uintptr_t>(arguments.cut) == 0x8040 + distance);
    CHECK(arguments.bytes == channel.bytes);
    CHECK(arguments.lanes == device::channel_lanes(channel.bytes));
    // Both places are within what the contract says that they take.
    CHECK(size_t{kPlacesOfChannel} * arguments.lanes * arguments.lane_words * 16 ==
          device::kChannelPlaces * device::channel_place_bytes(channel.bytes));
}

constexpr size_t kChannelSizes[] = {0, 1, 8, 9, 255, 256, 257, 4088, 4096, 4097, 8192, 40'000, 65535, 65536};

// A block for each lane, with a thread for each word of a lane, in whole warps.
void check_lanes(const FakeLaunch& launch, size_t bytes) {
    const size_t words = std::clamp<size_t>((bytes + 7) / 8, 1, kBytesOfLane / 8);
    CHECK(launch.blocks == device::channel_lanes(bytes));
    CHECK(launch.threads % 32 == 0);
    CHECK(launch.threads >= words);
    CHECK((launch.threads < words + 32 ||
           launch.threads == kFewestThreads)); // blocks that are smaller do not start beside large ones
    CHECK(launch.threads <= kMailThreads);
}

void count(void* calls) { ++*static_cast<int*>(calls); }

} // namespace

TEST_SUITE_BEGIN("CUDA graphs");

TEST_CASE("a message is put into a channel, and taken from it, by a block for each lane") {
    for (const bool early : {false, true}) {
        Bench bench(true, early);
        auto* const memory = reinterpret_cast<std::byte*>(0x4003);
        for (const size_t bytes : kChannelSizes) {
            CAPTURE(early);
            CAPTURE(bytes);
            const device::Channel channel = channel_of(bytes);
            const auto [put, put_arguments] = bench.launched<PutInChannelArguments>(
                [&](CudaDevice& device) { return device.channel_put(channel, memory, kStream); });
            CHECK(put.kernel == kPutInChannel);
            CHECK(put.early == early);
            check_lanes(put, bytes);
            check_channel(put_arguments.channel, channel);
            CHECK(static_cast<const void*>(put_arguments.source) == memory);
            const size_t taken = bytes / 2; // all lanes say that they are done, all the same
            const auto [take, take_arguments] = bench.launched<TakeFromChannelArguments>(
                [&](CudaDevice& device) { return device.channel_take(channel, memory, taken, kStream); });
            CHECK(take.kernel == kTakeFromChannel);
            CHECK(take.early == early);
            check_lanes(take, bytes);
            check_channel(take_arguments.channel, channel);
            CHECK(static_cast<void*>(take_arguments.destination) == memory);
            CHECK(take_arguments.bytes == taken);
        }
    }
}

TEST_CASE("a channel's log of runs is told by device addresses, and which part of a run an operation is") {
    std::vector<platform::RunTimes> places(3);
    std::atomic<uint64_t> lost{0};
    const device::RunLog log{reinterpret_cast<uint64_t*>(0x6000), places.data(), places.size(), &lost};
    for (const bool host_pointers : {true, false})
        for (const uint32_t parts : {kFirstOfRun, kLastOfRun, kFirstOfRun | kLastOfRun}) {
            Bench bench(host_pointers);
            fake().host_distance = 0x1000;
            const uintptr_t distance = host_pointers ? 0 : 0x1000;
            device::Channel channel = channel_of(8);
            channel.log = &log;
            channel.log_place = reinterpret_cast<uint64_t*>(0x6008);
            channel.log_name = 77;
            channel.first_of_run = (parts & kFirstOfRun) != 0;
            channel.last_of_run = (parts & kLastOfRun) != 0;
            const auto [launch, arguments] = bench.launched<Logged<ChannelArguments>>(
                [&](CudaDevice& device) { return device.channel_await_taken(channel, kStream); });
            CHECK(launch.kernel == kAwaitChannelTakenLogged);
            check_channel(arguments.arguments, channel, distance);
            const auto& told = arguments.log;
            CHECK(told.taken == log.taken);
            CHECK(reinterpret_cast<uintptr_t>(told.places) == reinterpret_cast<uintptr_t>(places.data()) + distance);
            CHECK(reinterpret_cast<uintptr_t>(told.lost) == reinterpret_cast<uintptr_t>(&lost) + distance);
            CHECK(told.room == 3);
            CHECK(told.place == channel.log_place);
            CHECK(told.name == 77);
            CHECK(told.parts == parts);
        }
    Bench bench;
    CHECK(bench
              .launched<ChannelArguments>(
                  [&](CudaDevice& device) { return device.channel_await_taken(channel_of(8), kStream); })
              .first.kernel == kAwaitChannelTaken);
}

TEST_CASE("whoever waits for a channel takes one block, with a thread for each lane that is waited for") {
    for (const bool early : {false, true}) {
        Bench bench(true, early);
        for (const size_t bytes : kChannelSizes) {
            const device::Channel channel = channel_of(bytes);
            const auto [taken, taken_arguments] = bench.launched<ChannelArguments>(
                [&](CudaDevice& device) { return device.channel_await_taken(channel, kStream); });
            CHECK(taken.kernel == kAwaitChannelTaken);
            CHECK(taken.early == early);
            CHECK(taken.blocks == 1);
            CHECK(taken.threads >= device::channel_lanes(bytes));
            check_channel(taken_arguments, channel);
        }
        const device::Channel signal = channel_of(0);
        const auto [put, put_arguments] = bench.launched<ChannelArguments>(
            [&](CudaDevice& device) { return device.channel_await_put(signal, kStream); });
        CHECK(put.kernel == kAwaitChannelPut);
        CHECK(put.early == early);
        CHECK(put.blocks * put.threads == 1);
        check_channel(put_arguments, signal);
        const auto [told, told_arguments] = bench.launched<ChannelArguments>(
            [&](CudaDevice& device) { return device.channel_tell_taken(signal, kStream); });
        CHECK(told.kernel == kTellChannelTaken);
        CHECK(told.early == early);
        CHECK(told.blocks * told.threads == 1);
        check_channel(told_arguments, signal);
    }
}

TEST_CASE("a pull has as many blocks as a copy, and its ticket") {
    for (const bool early : {false, true}) {
        Bench bench(true, early);
        const device::Channel channel = channel_of(0);
        auto* const destination = reinterpret_cast<void*>(0x4000);
        const auto* const source = reinterpret_cast<const void*>(0x9000);
        auto* const ticket = reinterpret_cast<uint32_t*>(0x7100);
        for (const size_t bytes : {size_t{1}, size_t{8192}, size_t{8193}, size_t{65537}, size_t{16} << 20}) {
            CAPTURE(bytes);
            const auto [launch, arguments] = bench.launched<PullThroughChannelArguments>([&](CudaDevice& device) {
                return device.channel_pull(channel, destination, source, bytes, ticket, kStream);
            });
            CHECK(launch.kernel == kPullThroughChannel);
            CHECK(launch.early == early);
            CHECK(launch.threads == kCopyThreads);
            CHECK(launch.blocks == std::clamp<size_t>((bytes + 8191) / 8192, 1, 64));
            check_channel(arguments.channel, channel);
            CHECK(arguments.destination == destination);
            CHECK(arguments.source == source);
            CHECK(arguments.bytes == bytes);
            CHECK(arguments.ticket == ticket);
        }
    }
}

TEST_CASE("channel kernels are given counters by the device's address for them") {
    Bench bench(false);
    fake().host_distance = 0x100000;
    const device::Channel channel = channel_of(8);
    const auto [launch, arguments] = bench.launched<ChannelArguments>(
        [&](CudaDevice& device) { return device.channel_await_taken(channel, kStream); });
    CHECK(launch.kernel == kAwaitChannelTaken);
    check_channel(arguments, channel, 0x100000);
}

TEST_CASE("a launch into a channel that fails is the stream's error, early or not") {
    for (const bool early : {false, true}) {
        Bench bench(true, early);
        fake().next_launch = CUDA_ERROR_INVALID_HANDLE;
        const device::Channel channel = channel_of(8);
        CHECK_STATUS(bench.device.channel_put(channel, channel.places, kStream), Status::kStream);
        CHECK_STATUS(bench.device.channel_take(channel, channel.places, 8, kStream), Status::kStream);
        CHECK_STATUS(bench.device.channel_await_taken(channel, kStream), Status::kStream);
        CHECK_STATUS(bench.device.channel_pull(channel, channel.places, channel.places, 8, nullptr, kStream),
                     Status::kStream);
    }
}

TEST_CASE("a capture leaves other threads alone, and becomes a graph that is destroyed once") {
    Bench bench;
    fake().graphs.captured = kGraph;
    REQUIRE_OK(bench.device.begin_capture(kStream));
    CHECK(fake().graphs.mode_of_begin == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    const device::Graph graph = must(bench.device.end_capture(kStream));
    CHECK(fake().graphs.graphs_destroyed == 1); // the executable needs it no more
    REQUIRE_OK(bench.device.destroy_graph(graph));
    CHECK(fake().graphs.executables_destroyed == 1);
    CHECK_STATUS(bench.device.destroy_graph(graph), Status::kArgument);
    CHECK(fake().graphs.executables_destroyed == 1);
    CHECK(fake().capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("a capture that fails, in whatever way, is an error of its stream") {
    Bench bench;
    fake().graphs.captured = kGraph;
    CHECK_STATUS(bench.device.end_capture(kStream), Status::kStream); // it is none
    for (const CUresult failure : {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                                   CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED}) {
        CAPTURE(static_cast<int>(failure));
        REQUIRE_OK(bench.device.begin_capture(kStream));
        fake().graphs.end = failure;
        CHECK_STATUS(bench.device.end_capture(kStream), Status::kStream);
    }
    REQUIRE_OK(bench.device.begin_capture(kStream));
    fake().graphs.end = CUDA_SUCCESS;
    fake().graphs.captured = nullptr; // invalidated
    CHECK_STATUS(bench.device.end_capture(kStream), Status::kStream);
    CHECK(fake().graphs.graphs_destroyed == 0);
}

TEST_CASE("a graph that cannot be made runnable is destroyed") {
    Bench bench;
    fake().graphs.captured = kGraph;
    fake().graphs.instantiate = CUDA_ERROR_OUT_OF_MEMORY;
    REQUIRE_OK(bench.device.begin_capture(kStream));
    CHECK_STATUS(bench.device.end_capture(kStream), Status::kMemory);
    CHECK(fake().graphs.graphs_destroyed == 1);
}

device::Graph capture(Bench& bench) {
    fake().graphs.captured = kGraph;
    REQUIRE_OK(bench.device.begin_capture(kStream));
    return must(bench.device.end_capture(kStream));
}

TEST_CASE("graphs are still once the latest run in each stream has ended") {
    Bench bench;
    const device::Graph graph = capture(bench);
    const auto other = made_up<device::Graph>(0xc00); // not ours
    const auto beside = made_up<device::Stream>(0xd00);
    REQUIRE_OK(bench.device.launch(graph, kStream));
    REQUIRE_OK(bench.device.launch(other, kStream));
    const auto runs = fake().busy_events;
    CHECK(runs.size() == 1);
    CHECK_FALSE(bench.device.keep_graphs_still().owns_lock());
    REQUIRE_OK(bench.device.launch(graph, beside));
    CHECK(fake().busy_events.size() == 2);
    fake().busy_events.erase(*runs.begin());
    CHECK_FALSE(bench.device.keep_graphs_still().owns_lock());
    fake().busy_events.clear();
    CHECK(bench.device.keep_graphs_still().owns_lock());
    CHECK(fake().capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("a graph that is destroyed for later is destroyed once, when that is asked for") {
    Bench bench;
    const device::Graph graph = capture(bench);
    REQUIRE_OK(bench.device.destroy_graph_later(graph));
    CHECK_STATUS(bench.device.destroy_graph_later(graph), Status::kArgument);
    CHECK_STATUS(bench.device.destroy_graph(graph), Status::kArgument);
    CHECK(fake().graphs.executables_destroyed == 0);
    bench.device.give_back();
    CHECK(fake().graphs.executables_destroyed == 1);
    bench.device.give_back();
    CHECK(fake().graphs.executables_destroyed == 1);
    CHECK(fake().capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("memory that is freed for later is given back once, when that is asked for") {
    Bench bench;
    fake().next_address = 0x3000;
    void* const memory = must(bench.device.allocate(64));
    FakeMemory& of = fake().memory[0x3000];
    of.id = 7;
    for (int look = 0; look < 2; ++look) // the second from what is known
        CHECK(must(bench.device.describe(memory, 64)).placement == device::Placement::kDevice);
    REQUIRE_OK(bench.device.free_later(memory));
    CHECK_STATUS(bench.device.describe(memory, 64), Status::kBuffer);
    CHECK_STATUS(bench.device.describe(static_cast<char*>(memory) + 8, 1), Status::kBuffer);
    CHECK_STATUS(bench.device.free_later(memory), Status::kBuffer);
    CHECK_STATUS(bench.device.free(memory), Status::kBuffer);
    CHECK(fake().memory.count(0x3000) == 1);
    bench.device.give_back();
    CHECK(fake().memory.count(0x3000) == 0);
    bench.device.give_back();
    CHECK_STATUS(bench.device.free_later(&bench), Status::kBuffer);
    CHECK(fake().capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST_CASE("a graph that is captured into another has no runs of its own") {
    Bench bench;
    const device::Graph graph = capture(bench);
    REQUIRE_OK(bench.device.begin_capture(kStream));
    REQUIRE_OK(bench.device.launch(graph, kStream));
    CHECK(fake().busy_events.empty());
    REQUIRE_OK(bench.device.destroy_graph(graph));
    CHECK(fake().graphs.executables_destroyed == 1);
}

TEST_CASE("the end of a graph is told by an object that only the graph has, or at once") {
    Bench bench;
    int calls = 0;
    CHECK_STATUS(bench.device.at_graph_end(kStream, count, &calls), Status::kStream); // not captured
    CHECK(calls == 1);
    fake().graphs.captured = kGraph;
    REQUIRE_OK(bench.device.begin_capture(kStream));
    fake().graphs.retain = CUDA_ERROR_INVALID_VALUE;
    CHECK_STATUS(bench.device.at_graph_end(kStream, count, &calls), Status::kDevice);
    CHECK(calls == 2);
    fake().graphs.retain = CUDA_SUCCESS;
    REQUIRE_OK(bench.device.at_graph_end(kStream, count, &calls));
    CHECK(calls == 2);
    CHECK(fake().graphs.retained == 1);
    fake().graphs.ends(fake().graphs.argument); // as the driver does
    CHECK(calls == 3);
}

} // namespace gpurun::test
