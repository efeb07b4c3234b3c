// What waits for a peer leaves room on the device for that peer's work, whatever stands behind it in its stream.
#include "box.hpp"

#include "device/capability/fused_reduce.hpp"
#include "device/capability/reduce.hpp"

namespace gpurun::conformance::room {

namespace {

constexpr size_t kCopied = 65536;

// A stream in which something waits, and one of a peer.
class Room {
  public:
    const Stream waiting, peers;

    std::byte* memory() const { return memory_.get(); }
    // Behind what waits: work for as many threads as the device has.
    void fill() {
        const void* const operands[] = {filling_.get()};
        REQUIRE_OK(subject().reduce()->reduce_elements({base::Type::kUint8, base::Op::kSum, 0}, kFilling,
                                                       filling_.get() + kFilling, operands, waiting));
    }
    void check() {
        const device::CopyBeside copy{memory() + kCopied, memory(), kCopied};
        REQUIRE_OK(subject().mails()->exchange({.copies = {&copy, 1}}, peers));
        CHECK(soon([&] { return peers.done(); }));
        CHECK_FALSE(waiting.done());
    }

  private:
    static constexpr size_t kFilling = size_t{64} << 20;
    const Memory memory_{2 * kCopied};
    const Memory filling_{2 * kFilling};
};

} // namespace

TEST_SUITE_BEGIN("fused-reduce");

TEST_CASE("an exchange that awaits a counter leaves room") {
    Room room;
    const size_t awaited = new_counter();
    const device::CounterValue value{&counter(awaited), kStep};
    REQUIRE_OK(subject().mails()->exchange({.awaits = {&value, 1}}, room.waiting));
    room.fill();
    room.check();
    store(awaited, kStep);
    room.waiting.finish();
}

TEST_CASE("short mails that are awaited leave room: taken alone, with others, and reduced") {
    Room room;
    Box box;
    const auto await = [&](const auto& enqueue) {
        box.begin();
        enqueue();
        room.fill();
        room.check();
        box.put(room.memory(), sizeof(int32_t), room.peers);
        room.waiting.finish();
        room.peers.finish();
    };
    SUBCASE("alone") {
        await([&] { box.take(room.memory() + kCopied, sizeof(int32_t), false, room.waiting); });
    }
    SUBCASE("with others") {
        await([&] {
            const device::IncomingMail take{box.incoming(sizeof(int32_t)), room.memory() + kCopied, sizeof(int32_t)};
            REQUIRE_OK(subject().mails()->take_mails({&take, 1}, room.waiting));
        });
    }
    SUBCASE("reduced") {
        await([&] {
            device::FusedReduction::Operand operands[2];
            operands[0].mail = box.incoming(sizeof(int32_t));
            operands[1].buffer = room.memory();
            REQUIRE_OK(subject().fused_reduce()->put_and_reduce(
                {}, {{base::Type::kInt32, base::Op::kSum, 0}, 1, room.memory() + kCopied, operands}, room.waiting));
        });
    }
}

} // namespace gpurun::conformance::room
