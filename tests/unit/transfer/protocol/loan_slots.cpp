// The slots of loans: a stream keeps its own, and open loans hold none.
#include "transfer/protocol/loan_slots.hpp"
#include "fence/cpu_fence.hpp"
#include "support/unit.hpp"

using namespace gpurun::transfer;
using gpurun::test::CpuFence;
using gpurun::test::must;

TEST_SUITE_BEGIN("loan slots");

TEST_CASE("a stream signals one slot again and again, though none of the signals has come") {
    CpuFence fence;
    LoanSlots slots;
    const Slot first = must(slots.take(fence, 7)).value();
    for (int i = 1; i < 100; ++i) {
        const Slot next = must(slots.take(fence, 7)).value();
        CHECK(next.number() == first.number());
        CHECK(next.value == first.value + i * kSlotStep);
    }
}

TEST_CASE("another stream, or the CPU, takes a slot whose last signal has come, and else none") {
    CpuFence fence;
    LoanSlots slots;
    constexpr uint64_t kCount = info_of(SlotClass::kLoan).count;
    std::vector<Slot> used;
    for (uint64_t stream = 1; stream <= kCount; ++stream)
        used.push_back(must(slots.take(fence, stream)).value());
    CHECK_FALSE(must(slots.take(fence, kCount + 1)).has_value());
    CHECK_FALSE(must(slots.take(fence, 0)).has_value());
    fence.signal_now(Edge::kForward, used[5]);
    const Slot again = must(slots.take(fence, kCount + 1)).value();
    CHECK(again.number() == used[5].number());
    CHECK(again.value == used[5].value + kSlotStep);
    fence.signal_now(Edge::kForward, again);
    CHECK(must(slots.take(fence, 6)).value().number() == again.number()); // whose slot is another's by now
}

TEST_CASE("signals of the CPU have come at once, so these never run out") {
    CpuFence fence;
    LoanSlots slots;
    for (int i = 0; i < 100; ++i)
        fence.signal_now(Edge::kForward, must(slots.take(fence, 0)).value());
}

TEST_SUITE_END();
