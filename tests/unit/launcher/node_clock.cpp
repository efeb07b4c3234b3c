// What a node's clock shows, by that of the head.
#include "node_clock.hpp"
#include "support/unit.hpp"

#include <cstdint>
#include <cstdlib>

using gpurun::launcher::NodeClock;

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kAhead = 70'000 * kSecond; // of the head's clock

} // namespace

TEST_SUITE_BEGIN("node clock");

TEST_CASE("without an answer the clocks are the same") {
    const NodeClock clock;
    CHECK(clock.to_head_ns(5) == 5);
    CHECK(clock.error_ns() == 0);
}

TEST_CASE("of a series the answer that came soonest counts") {
    NodeClock clock;
    clock.add(NodeClock::kStart, kAhead + 1000, 900'000, kAhead + 1'001'000); // which was long on its way back
    clock.add(NodeClock::kStart, kAhead + 2'000'000, 2'000'100, kAhead + 2'000'200);
    clock.add(NodeClock::kStart, kAhead + 3'000'000, 3'090'000, kAhead + 3'100'000);
    CHECK(clock.to_head_ns(2'000'100) == kAhead + 2'000'100);
    CHECK(clock.to_head_ns(0) == kAhead);
    CHECK(clock.error_ns() == 100);
}

TEST_CASE("between the series the difference changes evenly") {
    NodeClock clock;
    const auto head = [](int64_t node_ns) { return kAhead + node_ns + node_ns / 100'000; }; // 10 us a second
    for (const auto& [series, node_ns] : {std::pair(NodeClock::kStart, kSecond), {NodeClock::kEnd, 1001 * kSecond}})
        clock.add(series, head(node_ns) - 50, node_ns, head(node_ns) + 50);
    for (const int64_t node_ns : {kSecond, 2 * kSecond, 500 * kSecond, 1001 * kSecond})
        CHECK(std::abs(clock.to_head_ns(node_ns) - head(node_ns)) <= 1);
    CHECK(clock.error_ns() == 50);
}

TEST_CASE("a clock may be ahead of the head's, and one series is enough") {
    NodeClock clock;
    clock.add(NodeClock::kEnd, 1000, kAhead + 1010, 1020);
    CHECK(clock.to_head_ns(kAhead + 5000) == 5000);
    CHECK(clock.error_ns() == 10);
}

TEST_CASE("no number that a node may say does harm") {
    for (const int64_t node_ns : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX}) {
        NodeClock clock;
        clock.add(NodeClock::kStart, 10, node_ns, 20);
        clock.add(NodeClock::kEnd, 30, -(node_ns / 2), 40);
        for (const int64_t asked_ns : {INT64_MIN, int64_t{0}, INT64_MAX})
            (void)clock.to_head_ns(asked_ns);
        NodeClock alone;
        alone.add(NodeClock::kEnd, 10, node_ns, 20);
        CHECK(alone.to_head_ns(node_ns) == 15);
    }
}
