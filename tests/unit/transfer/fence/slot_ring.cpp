// When a slot of a fence may be used again.
#include "transfer/fence/slot_ring.hpp"
#include "fence/cpu_fence.hpp"
#include "support/unit.hpp"

#include <vector>

using namespace gpurun;
using namespace gpurun::transfer;
using gpurun::test::CpuFence;
using gpurun::test::must;

namespace {

std::vector<Slot> take_all(SlotRing& slots, Fence& fence) {
    std::vector<Slot> taken;
    while (const auto slot = must(slots.take(fence)))
        taken.push_back(*slot);
    return taken;
}

} // namespace

TEST_SUITE_BEGIN("slot ring");

TEST_CASE("the slots of all classes are apart, and no class has none") {
    std::vector<int> uses(kSlots);
    for (size_t each = 0; each < kSlotClasses.size(); ++each) {
        const auto slots = static_cast<SlotClass>(each);
        CHECK(info_of(slots).count > 0);
        for (uint16_t index = 0; index < info_of(slots).count; ++index)
            ++uses[Slot{slots, true, index}.number()];
    }
    CHECK(uses == std::vector<int>(kSlots, 1));
}

TEST_CASE("each slot is taken once, and again when its backward edge has come, with a greater value") {
    CpuFence fence;
    SlotRing slots(SlotClass::kEager);
    const std::vector<Slot> first = take_all(slots, fence);
    REQUIRE(first.size() == info_of(SlotClass::kEager).count);
    for (uint16_t i = 0; i < first.size(); ++i) {
        CHECK(first[i].valid);
        CHECK(first[i].slots == SlotClass::kEager);
        CHECK(first[i].index == i);
    }
    fence.signal_now(Edge::kForward, first[2]);
    CHECK(take_all(slots, fence).empty());
    fence.signal_now(Edge::kBackward, first[2]);
    const std::vector<Slot> again = take_all(slots, fence);
    REQUIRE(again.size() == 1);
    CHECK(again[0].number() == first[2].number());
    CHECK(again[0].value == first[2].value + kSlotStep);
}

TEST_CASE("several slots are taken together or not at all, the first ones that are free") {
    CpuFence fence;
    SlotRing slots(SlotClass::kEager);
    const auto indices = [](const std::vector<Slot>& taken) {
        std::vector<uint16_t> all;
        for (const Slot& each : taken)
            all.push_back(each.index);
        return all;
    };
    std::vector<Slot> first(3), second(12);
    REQUIRE(must(slots.take_all(fence, first, 16)));
    REQUIRE(must(slots.take_all(fence, second, 16)));
    CHECK(indices(first) == std::vector<uint16_t>{0, 1, 2});
    fence.signal_now(Edge::kBackward, first[1]);
    std::vector<Slot> more(3), two(2);
    CHECK_FALSE(must(slots.take_all(fence, more, 16)));
    REQUIRE(must(slots.take_all(fence, two, 16)));
    CHECK(indices(two) == std::vector<uint16_t>{1, 15});
    CHECK(two[0].value == first[1].value + kSlotStep);
    CHECK_FALSE(must(slots.take_all(fence, std::span(two).first(1), 16)));
}

TEST_CASE("a message that nobody answers ends its slot's use by the forward edge") {
    CpuFence fence;
    SlotRing slots(SlotClass::kRendezvous);
    const std::vector<Slot> used = take_all(slots, fence);
    CHECK_FALSE(slots.next_free(fence).has_value());
    slots.settle(used[3], Edge::kForward);
    const auto next = slots.next_free(fence);
    REQUIRE(next.has_value());
    CHECK(*next == CompletionPoint::at(fence, Edge::kForward, used[3]));
    CHECK(take_all(slots, fence).empty());
    fence.signal_now(Edge::kForward, used[3]);
    const std::vector<Slot> again = take_all(slots, fence);
    REQUIRE(again.size() == 1);
    CHECK(again[0].index == 3);
}

TEST_CASE("of several uses whose end is known, the one that was begun first is waited for") {
    CpuFence fence;
    SlotRing slots(SlotClass::kLateEdge);
    const std::vector<Slot> used = take_all(slots, fence);
    slots.settle(used[7], Edge::kBackward);
    slots.settle(used[2], Edge::kBackward);
    CHECK(slots.next_free(fence) == CompletionPoint::at(fence, Edge::kBackward, used[2]));
}

TEST_CASE("an answer that comes after its edge does not concern the slot's next use") {
    CpuFence fence;
    SlotRing slots(SlotClass::kLateEdge);
    const std::vector<Slot> used = take_all(slots, fence);
    fence.signal_now(Edge::kBackward, used[0]);
    const Slot next = take_all(slots, fence).at(0);
    REQUIRE(next.number() == used[0].number());
    slots.settle(used[0], Edge::kForward);
    CHECK_FALSE(slots.next_free(fence).has_value());
    fence.signal_now(Edge::kForward, next);
    CHECK(take_all(slots, fence).empty()); // it still ends by its backward edge
}

TEST_CASE("a mail slot whose mail was read before it was all written is not free") {
    for (const SlotClass mails : {SlotClass::kLargeMail, SlotClass::kMail, SlotClass::kSmallMail}) {
        CpuFence fence;
        SlotRing slots(mails);
        const std::vector<Slot> used = take_all(slots, fence);
        fence.signal_now(Edge::kBackward, used[1]); // the target took the first bytes
        CHECK(take_all(slots, fence).empty());
        fence.signal_now(Edge::kForward, used[1]);
        const std::vector<Slot> again = take_all(slots, fence);
        REQUIRE(again.size() == 1);
        CHECK(again[0].index == 1);
    }
}

TEST_SUITE_END();
