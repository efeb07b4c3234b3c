// When a slot of a fence may be used again.
#include "transfer/slots.hpp"
#include "cpu_fence.hpp"
#include "support/unit.hpp"

using namespace gpurun;
using namespace gpurun::transfer;
using gpurun::test::CpuFence;
using gpurun::test::must;

namespace {

template <typename Slots>
std::vector<SlotValue> take_all(Slots& slots, Fence& fence) {
    std::vector<SlotValue> taken;
    while (const auto slot = must(slots.take(fence)))
        taken.push_back(*slot);
    return taken;
}

} // namespace

TEST_SUITE_BEGIN("slots");

TEST_CASE("each slot is taken once, and again when its backward edge has come, with a larger value") {
    CpuFence fence;
    Slots<kEagerSlot, 4> slots;
    const std::vector<SlotValue> first = take_all(slots, fence);
    REQUIRE(first.size() == 4);
    for (uint32_t i = 0; i < 4; ++i)
        CHECK(first[i].slot == kEagerSlot + i);
    fence.signal_now(Edge::kForward, first[2].slot, first[2].value);
    CHECK(take_all(slots, fence).empty());
    fence.signal_now(Edge::kBackward, first[2].slot, first[2].value);
    const std::vector<SlotValue> again = take_all(slots, fence);
    REQUIRE(again.size() == 1);
    CHECK(again[0].slot == first[2].slot);
    CHECK(again[0].value == first[2].value + kStep);
}

TEST_CASE("a message that nobody answers ends its slot's use by the forward edge") {
    CpuFence fence;
    Slots<kDirectSlot, 1> slots;
    const SlotValue used = must(slots.take(fence)).value();
    CHECK_FALSE(slots.next_free(fence).has_value());
    slots.settle(used, Edge::kForward);
    CHECK(slots.next_free(fence).has_value());
    CHECK(take_all(slots, fence).empty());
    fence.signal_now(Edge::kForward, used.slot, used.value);
    CHECK(take_all(slots, fence).size() == 1);
}

TEST_CASE("a mail slot whose mail was read before it was all written is not free") {
    CpuFence fence;
    Slots<kMailSlot, 2> slots;
    const std::vector<SlotValue> used = take_all(slots, fence);
    REQUIRE(used.size() == 2);
    fence.signal_now(Edge::kBackward, used[1].slot, used[1].value); // the target took the first bytes
    CHECK(take_all(slots, fence).empty());
    fence.signal_now(Edge::kForward, used[1].slot, used[1].value);
    const std::vector<SlotValue> again = take_all(slots, fence);
    REQUIRE(again.size() == 1);
    CHECK(again[0].slot == used[1].slot);
}

TEST_SUITE_END();
