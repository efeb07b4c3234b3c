// What waits for a peer leaves room on the device for that peer's work, whatever stands behind it in its stream.
#include "box.hpp"
#include "line.hpp"

#include "device/capability/fused_reduce.hpp"
#include "device/capability/reduce.hpp"

#include <deque>

namespace gpurun::conformance::room {

namespace {

constexpr size_t kCopied = 65536;
constexpr size_t kStreams = 4;
// Of a reduction by as many threads as a GPU of 132 processors has, and by a quarter of them.
constexpr size_t kLong = size_t{4} << 20, kQuarter = size_t{1} << 20;

// Streams in which something waits, and one of a peer.
class Room {
  public:
    explicit Room(size_t filling) : filling_bytes_(filling) {}

    const Stream waiting[kStreams], peers;

    std::byte* memory() const { return memory_.get(); }
    std::byte* result(size_t stream) const { return memory() + (1 + stream) * kCopied; }
    // What each stream waits for; behind that comes work for as many threads as the device has, by one stream or by
    // all. A peer's goes on nevertheless.
    template <typename Enqueue>
    void check(const Enqueue& enqueue) {
        for (size_t i = 0; i < kStreams; ++i) {
            enqueue(i);
            const void* const operands[] = {filling_.get()};
            REQUIRE_OK(subject().reduce()->reduce_elements({base::Type::kUint64, base::Op::kSum, 0},
                                                           filling_bytes_ / sizeof(uint64_t),
                                                           filling_.get() + (1 + i) * kLong, operands, waiting[i]));
        }
        const device::CopyBeside copy{memory() + (1 + kStreams) * kCopied, memory(), kCopied};
        REQUIRE_OK(subject().mails()->exchange({.copies = {&copy, 1}}, peers));
        CHECK(soon([&] { return peers.done(); }));
        for (const Stream& each : waiting)
            CHECK_FALSE(each.done());
    }
    void finish() const {
        for (const Stream& each : waiting)
            each.finish();
        peers.finish();
    }

  private:
    const size_t filling_bytes_;
    const Memory memory_{(2 + kStreams) * kCopied};
    const Memory filling_{(1 + kStreams) * kLong};
};

} // namespace

TEST_SUITE_BEGIN("fused-reduce");

TEST_CASE("exchanges that await a counter leave room") {
    for (const size_t filling : {kLong, kQuarter}) {
        CAPTURE(filling);
        Room room(filling);
        const size_t awaited = new_counter();
        const device::CounterValue value{&counter(awaited), kStep};
        room.check([&](size_t stream) {
            REQUIRE_OK(subject().mails()->exchange({.awaits = {&value, 1}}, room.waiting[stream]));
        });
        store(awaited, kStep);
        room.finish();
    }
}

// (Those that are taken with others stand in streams of their own.)
TEST_CASE("short mails that are awaited leave room: taken, and reduced") {
    for (const size_t filling : {kLong, kQuarter})
        for (const bool reduced : {false, true}) {
            CAPTURE(filling);
            CAPTURE(reduced);
            Room room(filling);
            std::deque<Box> boxes(kStreams);
            room.check([&](size_t stream) {
                Box& box = boxes[stream];
                box.begin();
                if (!reduced) {
                    box.take(room.result(stream), sizeof(int32_t), false, room.waiting[stream]);
                    return;
                }
                device::FusedReduction::Operand operands[2];
                operands[0].mail = box.incoming(sizeof(int32_t));
                operands[1].buffer = room.memory();
                REQUIRE_OK(subject().fused_reduce()->put_and_reduce(
                    {}, {{base::Type::kInt32, base::Op::kSum, 0}, 1, room.result(stream), operands},
                    room.waiting[stream]));
            });
            for (const Box& each : boxes)
                each.put(room.memory(), sizeof(int32_t), room.peers);
            room.finish();
        }
}

// The first of a graph waits. What the others wait for is there.
TEST_CASE("what waits in a graph leaves room, whatever stands behind it there") {
    constexpr size_t kRow = 12, kPulled = size_t{1} << 20;
    const int times = is_emulated() ? 3 : 50;
    const Memory memory(2 * kPulled), filling(2 * kLong);
    std::deque<Line> lines;
    for (size_t i = 0; i < kRow; ++i)
        lines.emplace_back(sizeof(int32_t));
    for (const bool alone : {true, false})
        for (const bool pulls : {false, true}) {
            CAPTURE(alone);
            CAPTURE(pulls);
            for (size_t i = 0; i < kRow; ++i)
                lines[i].clear(i == 0 ? sizeof(int32_t) : pulls ? 0 : kLargestInChannel);
            const Stream waiting, peers;
            std::byte* const into = memory.get() + kPulled;
            const Graph row(waiting, [&](device::Stream stream) {
                const device::ChannelTake first[] = {{lines[0].target(), into, sizeof(int32_t)}};
                if (alone)
                    lines[0].take(into, sizeof(int32_t), stream);
                else
                    REQUIRE_OK(subject().channels()->channel_exchange({}, first, {0, 1}, stream));
                for (size_t i = 1; i < kRow; ++i) {
                    if (pulls)
                        lines[i].pull(into, memory.get(), kPulled, stream);
                    else
                        lines[i].take(into, kLargestInChannel, stream);
                }
            });
            for (size_t i = 1; i < kRow; ++i)
                lines[i].put(memory.get(), peers);
            peers.finish();
            row.launch(waiting);
            for (int time = 0; time < times; ++time) {
                const void* const operands[] = {filling.get()};
                REQUIRE_OK(subject().reduce()->reduce_elements({base::Type::kUint64, base::Op::kSum, 0},
                                                               kLong / sizeof(uint64_t), filling.get() + kLong,
                                                               operands, peers));
                REQUIRE(soon([&] { return peers.done(); }));
            }
            CHECK_FALSE(waiting.done());
            lines[0].put(memory.get(), peers);
            peers.finish();
            waiting.finish();
        }
}

} // namespace gpurun::conformance::room
