// A relayed message in several streams, between two ranks: that they go beside each other, that the message ends behind
// all of them, and when they go back. One of them is held, so that what depends on it shows.
#include "test_job.hpp"
#include "transfer/protocol/relay.hpp"

#include <algorithm>
#include <cstring>

using namespace gpurun;
using namespace gpurun::transfer;
using gpurun::test::comes_true;
using gpurun::test::HeldStream;
using gpurun::test::must;
using gpurun::test::TestJob;
using gpurun::test::TestRank;

namespace {

constexpr uint64_t kChunkBytes = 64 * 1024;
constexpr int64_t kLongNs = 100'000'000; // for what must not happen, and otherwise would in far less
constexpr int kPattern = 5;

// Chunks pass through memory on the source's device unless a test says otherwise: those take several streams.
struct PipelineBench {
    explicit PipelineBench(base::FenceKind fence, RelayPool pool_ = RelayPool::kDevice)
        : job(2, test::with_fence(fence)), pool(pool_) {}

    RelayPlan plan(uint64_t bytes) const { return RelayPlan{pool, 0, bytes, kChunkBytes}; }
    RelayPipeline fill(uint64_t bytes) {
        return {source.resources(), source.peer(1), RelayPipeline::Role::kFill, plan(bytes), nullptr};
    }
    RelayPipeline drain(uint64_t bytes) {
        return {target.resources(), target.peer(0), RelayPipeline::Role::kDrain, plan(bytes), nullptr};
    }
    Operand filled(uint64_t bytes) {
        const Operand made = source.on_stream(source.on_device(bytes));
        source.fill(made, kPattern);
        return made;
    }
    // What the source's part has told the target's.
    void deliver() {
        while (!source.channel(1).posted.empty())
            target.peer(0).on_notice(source.channel(1).take().record);
    }
    // Whether the chunk's forward edge has come, on a buffer's first use.
    bool reached(uint16_t chunk) {
        const Slot slot{SlotClass::kRelay, true, chunk, 0, kSlotStep};
        return must(must(source.peer(1).fence_out())->reached(Edge::kForward, slot));
    }
    bool holds_message(const Operand& operand) {
        REQUIRE_OK(target.device->synchronize(operand.stream));
        return target.contents(operand) == TestRank::pattern(operand.bytes, kPattern);
    }
    // Whether the edge of the pipeline's last chunk has come, as its peer sees it.
    static bool has_ended(TestRank& rank, const RelayPipeline& pipeline) {
        Fence& fence = *must(rank.peer(1 - rank.self).channel().fence(pipeline.direction()));
        return must(fence.reached(pipeline.own_edge(), pipeline.last_slot()));
    }

    TestJob job;
    RelayPool pool;
    TestRank& source = job.rank(0);
    TestRank& target = job.rank(1);
};

constexpr base::FenceKind kFences[] = {base::FenceKind::kCounter, base::FenceKind::kEvent};
constexpr uint64_t kAsManyAsBuffers = platform::kRelayBuffers; // a source fills them, whatever its target does
constexpr uint64_t kMessageBytes = kAsManyAsBuffers * kChunkBytes;
static_assert(kAsManyAsBuffers >= kLeastChunksInStreams);

// What a stream may be writing, when nothing has told that it is done.
__attribute__((no_sanitize("thread"))) std::byte read_unordered(const std::byte* at) {
    return *const_cast<const volatile std::byte*>(at);
}

} // namespace

TEST_SUITE_BEGIN("relay pipeline");

TEST_CASE("a message in several streams brings every byte, and many after each other do") {
    for (const base::FenceKind fence : kFences)
        for (const RelayPool pool : {RelayPool::kHost, RelayPool::kDevice}) {
            PipelineBench bench(fence, pool);
            for (const uint64_t chunks : {1u, 3u, 4u, 5u, 8u, 13u}) {
                CAPTURE(chunks);
                const Operand from = bench.filled(chunks * kChunkBytes - 7);
                const Operand to = bench.target.on_stream(bench.target.on_device(from.bytes));
                RelayPipeline fill = bench.fill(from.bytes);
                RelayPipeline drain = bench.drain(from.bytes);
                bool filled = false, drained = false;
                while (!filled || !drained) {
                    filled = filled || must(fill.step(from));
                    bench.deliver();
                    drained = drained || must(drain.step(to));
                }
                CHECK(bench.holds_message(to));
            }
        }
}

TEST_CASE("chunks go on in one stream while another is held") {
    for (const base::FenceKind fence : kFences) {
        PipelineBench bench(fence);
        const Operand from = bench.filled(kMessageBytes);
        HeldStream gate(*bench.source.device, bench.source.next_internal());
        RelayPipeline fill = bench.fill(kMessageBytes);
        REQUIRE(must(fill.step(from)));
        CHECK(comes_true([&] { return bench.reached(1); }));
        CHECK_FALSE(bench.reached(0));
        gate.open();
        REQUIRE_OK(bench.source.device->synchronize(from.stream));
        CHECK(bench.reached(0));
    }
}

TEST_CASE("copies to host memory go on while what tells of them is held") {
    for (const base::FenceKind fence : kFences) {
        PipelineBench bench(fence, RelayPool::kHost);
        const Operand from = bench.filled(kMessageBytes);
        HeldStream gate(*bench.source.device, bench.source.next_internal());
        RelayPipeline fill = bench.fill(kMessageBytes);
        REQUIRE(must(fill.step(from)));
        const std::byte* const last =
            must(bench.source.channel(1).relay_buffer(Direction::kOut, 0, kAsManyAsBuffers - 1, false));
        const std::byte expected = TestRank::pattern(kMessageBytes, kPattern).back();
        CHECK(comes_true([&] { return read_unordered(last + kChunkBytes - 1) == expected; }));
        for (uint16_t chunk = 0; chunk < kAsManyAsBuffers; ++chunk)
            CHECK_FALSE(bench.reached(chunk));
        gate.open();
        REQUIRE_OK(bench.source.device->synchronize(from.stream));
        for (uint16_t chunk = 0; chunk < kAsManyAsBuffers; ++chunk)
            CHECK(bench.reached(chunk));
    }
}

TEST_CASE("a source's message ends, for its peer and in its stream, behind a chunk that is held in another") {
    for (const base::FenceKind fence : kFences) {
        PipelineBench bench(fence);
        const Operand from = bench.filled(kMessageBytes);
        HeldStream gate(*bench.source.device, bench.source.next_internal());
        RelayPipeline fill = bench.fill(kMessageBytes);
        REQUIRE(must(fill.step(from)));
        CHECK_FALSE(comes_true(
            [&] { return bench.source.idle(from.stream) || PipelineBench::has_ended(bench.source, fill); }, kLongNs));
        gate.open();
        REQUIRE_OK(bench.source.device->synchronize(from.stream));
        CHECK(PipelineBench::has_ended(bench.source, fill));
    }
}

TEST_CASE("a target's message ends, for its peer and in its stream, behind a chunk that is held in another") {
    for (const base::FenceKind fence : kFences) {
        PipelineBench bench(fence);
        const Operand from = bench.filled(kMessageBytes);
        const Operand to = bench.target.on_stream(bench.target.on_device(kMessageBytes));
        RelayPipeline fill = bench.fill(kMessageBytes);
        REQUIRE(must(fill.step(from)));
        bench.deliver();
        REQUIRE_OK(bench.source.device->synchronize(from.stream));
        HeldStream gate(*bench.target.device, bench.target.next_internal());
        RelayPipeline drain = bench.drain(kMessageBytes);
        REQUIRE(must(drain.step(to)));
        CHECK_FALSE(comes_true(
            [&] { return bench.target.idle(to.stream) || PipelineBench::has_ended(bench.target, drain); }, kLongNs));
        gate.open();
        CHECK(bench.holds_message(to));
        CHECK(PipelineBench::has_ended(bench.target, drain));
    }
}

TEST_CASE("a target starts no chunk of its peer's memory before it knows where that is") {
    PipelineBench bench(base::FenceKind::kCounter);
    const Operand from = bench.filled(kMessageBytes);
    const Operand to = bench.target.on_stream(bench.target.on_device(kMessageBytes));
    RelayPipeline fill = bench.fill(kMessageBytes);
    REQUIRE(must(fill.step(from)));
    RelayPipeline drain = bench.drain(kMessageBytes);
    CHECK_FALSE(must(drain.step(to)));
    CHECK(drain.moved() == 0);
    bench.deliver();
    CHECK(must(drain.step(to)));
    CHECK(bench.holds_message(to));
}

TEST_CASE("what a message has enqueued when it is given up ends in its stream, too") {
    for (const base::FenceKind fence : kFences) {
        PipelineBench bench(fence);
        const Operand from = bench.filled(2 * kMessageBytes);
        HeldStream gate(*bench.source.device, bench.source.next_internal());
        RelayPipeline fill = bench.fill(2 * kMessageBytes);
        REQUIRE_FALSE(must(fill.step(from))); // nobody drains
        REQUIRE(fill.moved() == kAsManyAsBuffers);
        fill.give_up(from);
        CHECK_FALSE(comes_true([&] { return bench.source.idle(from.stream); }, kLongNs));
        gate.open();
        REQUIRE_OK(bench.source.device->synchronize(from.stream));
    }
}

TEST_CASE("a borrowed stream is not given again before its message has ended there") {
    for (const base::FenceKind fence : kFences) {
        PipelineBench bench(fence);
        const Operand from = bench.filled(kMessageBytes);
        const device::Stream held = bench.source.next_internal();
        HeldStream gate(*bench.source.device, held);
        RelayPipeline fill = bench.fill(kMessageBytes);
        REQUIRE(must(fill.step(from)));
        CHECK_FALSE(bench.source.next_internal() == held);
        gate.open();
        REQUIRE_OK(bench.source.device->synchronize(from.stream));
        REQUIRE_OK(bench.source.device->synchronize(held));
        const device::Stream first = must(bench.source.pools().streams.take());
        CHECK((first == held || must(bench.source.pools().streams.take()) == held));
    }
}

TEST_CASE("a message of few chunks, and one of host memory, is moved in its own stream") {
    const auto moves_alone = [](PipelineBench& bench, const Operand& from) {
        const device::Stream held = bench.source.next_internal();
        HeldStream gate(*bench.source.device, held);
        RelayPipeline fill = bench.fill(from.bytes);
        REQUIRE(must(fill.step(from)));
        CHECK(comes_true([&] { return bench.source.idle(from.stream); }));
        gate.open();
        REQUIRE_OK(bench.source.device->synchronize(held));
    };
    PipelineBench first(base::FenceKind::kCounter);
    moves_alone(first, first.filled((kLeastChunksInStreams - 1) * kChunkBytes));
    PipelineBench second(base::FenceKind::kCounter, RelayPool::kHost);
    moves_alone(second, second.source.on_stream(second.source.pinned(kMessageBytes)));
}

TEST_CASE("where many internal streams are taken, there are none to spare, but others get theirs") {
    PipelineBench bench(base::FenceKind::kCounter);
    InternalStreams& streams = bench.source.pools().streams;
    std::vector<device::Stream> taken;
    while (const auto spare = must(streams.take_spare()))
        taken.push_back(*spare);
    CHECK(taken.size() == streams.limits().messages / 2);
    const device::Stream other = must(streams.take());
    CHECK(std::find(taken.begin(), taken.end(), other) == taken.end());
    streams.give_back(taken.back(), InternalStreams::State::kRunning);
    CHECK_FALSE(must(streams.take_spare()).has_value());
    streams.give_back(other, InternalStreams::State::kRunning);
    CHECK(must(streams.take_spare()).has_value());
}

TEST_SUITE_END();
