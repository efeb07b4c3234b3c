// A relayed message in several streams, to its own rank on one emulated device: that they go beside each other, that
// the message ends behind all of them, and when they go back. One of them is held, so that what depends on it shows.
#include "support/unit.hpp"
#include "transfer/mailbox.hpp"
#include "transfer/relay.hpp"

#include "platform/clock.hpp"
#include "platform/wake.hpp"

#include <cstring>
#include <new>
#include <thread>
#include <vector>

using namespace gpurun;
using namespace gpurun::transfer;
using gpurun::test::must;

namespace {

constexpr uint64_t kChunkBytes = 64 * 1024;
constexpr int64_t kLongNs = 100'000'000; // for what must not happen, and otherwise would in far less

template <typename Condition>
bool comes_true(Condition condition, int64_t within_ns) {
    const int64_t end_ns = platform::now_ns() + within_ns;
    while (!condition() && platform::now_ns() < end_ns)
        std::this_thread::yield();
    return condition();
}

std::unique_ptr<device::Device> open_emulated() {
    device::Options options;
    options.selector = "emulated:0/1";
    options.emulated_memory_bytes = size_t{64} << 20;
    return must(device::open_device(options));
}

base::Settings with_fence(base::FenceKind fence) {
    base::Settings settings;
    settings.fence = fence;
    return settings;
}

// Keeps a stream from going on, and no host function.
class Gate {
  public:
    Gate(device::Device& device, device::Stream stream)
        : device_(device), stream_(stream),
          opened_(new (must(device.allocate_pinned(sizeof(device::Counter)))) device::Counter(0)) {
        REQUIRE_OK(device.await_counter(stream, opened_, 1));
    }
    ~Gate() {
        open();
        (void)device_.synchronize(stream_); // nobody looks at it any more
        (void)device_.free_pinned(opened_);
    }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    void open() { platform::store_and_wake(*opened_, 1); }

  private:
    device::Device& device_;
    device::Stream stream_;
    device::Counter* opened_;
};

class Bench {
  public:
    explicit Bench(base::FenceKind fence)
        : settings(with_fence(fence)), workspace(must(Workspace::publish(*device, settings, job.rank(0), 1))),
          context(*device, job, settings, 0, workspace, nullptr, runs), link(must(Link::open(context, 0))) {}

    // Of `bytes` on the device, with a stream of their own.
    Operand operand(uint64_t bytes) {
        Operand made;
        made.address = static_cast<std::byte*>(must(device->allocate(bytes)));
        made.bytes = bytes;
        made.where = must(device->describe(made.address, bytes));
        made.on_stream = true;
        made.stream = must(device->create_stream());
        return made;
    }
    Operand filled(uint64_t bytes) {
        const Operand made = operand(bytes);
        std::vector<std::byte> content(bytes);
        for (uint64_t i = 0; i < bytes; ++i)
            content[i] = byte_at(i);
        write(made, content.data());
        return made;
    }
    Relay relay(Relay::Side side, uint64_t chunks) {
        return Relay(context, *link, side, RelayPlan{Pool::kHost, chunks * kChunkBytes, kChunkBytes, true}, nullptr);
    }
    // The internal stream that is given next.
    device::Stream next_internal() {
        const device::Stream stream = must(context.streams.take());
        context.streams.take_back(stream, Streams::State::kRunning);
        return stream;
    }
    bool idle(device::Stream stream) { return must(device->query(stream)); }
    bool reached(Edge edge, uint64_t number) {
        const auto slot = kRelaySlot + static_cast<uint32_t>(number);
        return must(must(link->out.fence())->reached(edge, slot, kStep));
    }
    bool holds_message(const Operand& operand) {
        auto* const pinned = static_cast<std::byte*>(must(device->allocate_pinned(operand.bytes)));
        REQUIRE_OK(device->copy(pinned, operand.address, operand.bytes, operand.stream));
        REQUIRE_OK(device->synchronize(operand.stream));
        bool holds = true;
        for (uint64_t i = 0; i < operand.bytes; ++i)
            holds = holds && pinned[i] == byte_at(i);
        REQUIRE_OK(device->free_pinned(pinned));
        return holds;
    }

    std::unique_ptr<device::Device> device = open_emulated();
    platform::JobSegment job = must(platform::JobSegment::create(1, 1));
    base::Settings settings;
    device::RunLog runs;
    Workspace workspace;
    Context context;
    std::unique_ptr<Link> link;

  private:
    static std::byte byte_at(uint64_t place) { return static_cast<std::byte>(1 + place * 131 % 251); }
    void write(const Operand& to, const std::byte* content) {
        void* const pinned = must(device->allocate_pinned(to.bytes));
        std::memcpy(pinned, content, to.bytes);
        REQUIRE_OK(device->copy(to.address, pinned, to.bytes, to.stream));
        REQUIRE_OK(device->synchronize(to.stream));
        REQUIRE_OK(device->free_pinned(pinned));
    }
};

constexpr base::FenceKind kFences[] = {base::FenceKind::kCounter, base::FenceKind::kEvent};
constexpr uint64_t kAsManyAsBuffers = platform::kRelayBuffers; // a source fills them, whatever its target does
static_assert(kAsManyAsBuffers >= kLeastChunksByTurns);

} // namespace

TEST_SUITE_BEGIN("relay streams");

TEST_CASE("a message in several streams brings every byte, and many after each other do") {
    for (const base::FenceKind fence : kFences) {
        Bench bench(fence);
        for (const uint64_t chunks : {1u, 3u, 4u, 5u, 8u, 13u}) {
            CAPTURE(chunks);
            const Operand from = bench.filled(chunks * kChunkBytes - 7);
            const Operand to = bench.operand(from.bytes);
            Relay fill(bench.context, *bench.link, Relay::Side::kFill, {Pool::kHost, from.bytes, kChunkBytes, true},
                       nullptr);
            Relay drain(bench.context, *bench.link, Relay::Side::kDrain, {Pool::kHost, to.bytes, kChunkBytes, true},
                        nullptr);
            bool filled = false, drained = false;
            while (!filled || !drained) {
                filled = filled || must(fill.step(from));
                drained = drained || must(drain.step(to));
            }
            CHECK(bench.holds_message(to));
        }
    }
}

TEST_CASE("chunks go on in one stream while another is held") {
    for (const base::FenceKind fence : kFences) {
        Bench bench(fence);
        const Operand from = bench.filled(kAsManyAsBuffers * kChunkBytes);
        Gate gate(*bench.device, bench.next_internal());
        Relay fill = bench.relay(Relay::Side::kFill, kAsManyAsBuffers);
        REQUIRE(must(fill.step(from)));
        while (!bench.reached(Edge::kForward, 1)) // would hang here
            std::this_thread::yield();
        CHECK_FALSE(bench.reached(Edge::kForward, 0));
        gate.open();
        REQUIRE_OK(bench.device->synchronize(from.stream));
        CHECK(bench.reached(Edge::kForward, 0));
    }
}

TEST_CASE("a source's message ends, for its peer and in its stream, behind a chunk that is held in another") {
    for (const base::FenceKind fence : kFences) {
        Bench bench(fence);
        const Operand from = bench.filled(kAsManyAsBuffers * kChunkBytes);
        Gate gate(*bench.device, bench.next_internal());
        Relay fill = bench.relay(Relay::Side::kFill, kAsManyAsBuffers);
        REQUIRE(must(fill.step(from)));
        CHECK_FALSE(
            comes_true([&] { return bench.idle(from.stream) || must(fill.last().come(*bench.device)); }, kLongNs));
        gate.open();
        REQUIRE_OK(bench.device->synchronize(from.stream));
        CHECK(must(fill.last().come(*bench.device)));
    }
}

TEST_CASE("a target's message ends, for its peer and in its stream, behind a chunk that is held in another") {
    for (const base::FenceKind fence : kFences) {
        Bench bench(fence);
        const Operand from = bench.filled(kAsManyAsBuffers * kChunkBytes);
        const Operand to = bench.operand(from.bytes);
        const device::Stream internal = bench.next_internal();
        Relay fill = bench.relay(Relay::Side::kFill, kAsManyAsBuffers);
        REQUIRE(must(fill.step(from)));
        REQUIRE_OK(bench.device->synchronize(from.stream));
        REQUIRE_OK(bench.device->synchronize(internal));
        REQUIRE(bench.next_internal() == internal); // for the target's side, too
        Gate gate(*bench.device, internal);
        Relay drain = bench.relay(Relay::Side::kDrain, kAsManyAsBuffers);
        REQUIRE(must(drain.step(to)));
        CHECK_FALSE(
            comes_true([&] { return bench.idle(to.stream) || must(drain.last().come(*bench.device)); }, kLongNs));
        gate.open();
        CHECK(bench.holds_message(to)); // by a copy that follows in its stream
        CHECK(must(drain.last().come(*bench.device)));
    }
}

TEST_CASE("what a message has enqueued when it is given up ends in its stream, too") {
    for (const base::FenceKind fence : kFences) {
        Bench bench(fence);
        const Operand from = bench.filled(2 * kAsManyAsBuffers * kChunkBytes);
        Gate gate(*bench.device, bench.next_internal());
        Relay fill = bench.relay(Relay::Side::kFill, 2 * kAsManyAsBuffers);
        REQUIRE_FALSE(must(fill.step(from))); // nobody drains
        REQUIRE(fill.moved() == kAsManyAsBuffers);
        fill.give_up(from);
        CHECK_FALSE(comes_true([&] { return bench.idle(from.stream); }, kLongNs));
        gate.open();
        REQUIRE_OK(bench.device->synchronize(from.stream));
    }
}

TEST_CASE("a borrowed stream is not given again before its message has ended there") {
    for (const base::FenceKind fence : kFences) {
        Bench bench(fence);
        const Operand from = bench.filled(kAsManyAsBuffers * kChunkBytes);
        const device::Stream held = bench.next_internal();
        Gate gate(*bench.device, held);
        Relay fill = bench.relay(Relay::Side::kFill, kAsManyAsBuffers);
        REQUIRE(must(fill.step(from)));
        CHECK_FALSE(bench.next_internal() == held);
        gate.open();
        REQUIRE_OK(bench.device->synchronize(from.stream));
        REQUIRE_OK(bench.device->synchronize(held));
        const device::Stream first = must(bench.context.streams.take());
        CHECK((first == held || must(bench.context.streams.take()) == held));
    }
}

TEST_CASE("a message of few chunks, and one of host memory, is moved in its own stream") {
    const auto moves_alone = [](Bench& bench, const Operand& from, uint64_t chunks) {
        const device::Stream held = bench.next_internal();
        Gate gate(*bench.device, held);
        Relay fill = bench.relay(Relay::Side::kFill, chunks);
        REQUIRE(must(fill.step(from)));
        REQUIRE_OK(bench.device->synchronize(from.stream)); // would hang here
        gate.open();
        REQUIRE_OK(bench.device->synchronize(held));
    };
    constexpr uint64_t kBytes = kAsManyAsBuffers * kChunkBytes;
    Bench first(base::FenceKind::kCounter);
    moves_alone(first, first.filled(kBytes), kLeastChunksByTurns - 1);
    Bench second(base::FenceKind::kCounter);
    Operand pinned = second.operand(kBytes);
    pinned.address = static_cast<std::byte*>(must(second.device->allocate_pinned(kBytes)));
    pinned.where = must(second.device->describe(pinned.address, kBytes));
    moves_alone(second, pinned, kAsManyAsBuffers);
}

TEST_CASE("where many internal streams are taken, there are none to spare, but others get theirs") {
    Bench bench(base::FenceKind::kCounter);
    std::vector<device::Stream> taken;
    while (const auto spare = must(bench.context.streams.take_spare()))
        taken.push_back(*spare);
    CHECK(taken.size() == Streams::kMostWithSpare);
    const device::Stream other = must(bench.context.streams.take());
    CHECK(std::find(taken.begin(), taken.end(), other) == taken.end());
    bench.context.streams.take_back(taken.back(), Streams::State::kRunning);
    CHECK_FALSE(must(bench.context.streams.take_spare()).has_value());
    bench.context.streams.take_back(other, Streams::State::kRunning);
    CHECK(must(bench.context.streams.take_spare()).has_value());
}

TEST_SUITE_END();
