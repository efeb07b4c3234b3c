// What a channel's side that waits says of it, while it does.
#include "line.hpp"

#include "platform/clock.hpp"

#include <chrono>
#include <thread>

namespace gpurun::conformance::channel_waits {

TEST_SUITE_BEGIN("channel waits");

namespace {

// Whether the side comes to say so.
bool says(const device::ChannelWait& wait, uint64_t runs) {
    constexpr int64_t kPatienceNs = 5'000'000'000;
    const int64_t end_ns = platform::now_ns() + kPatienceNs;
    while (wait.runs.load(std::memory_order_acquire) != runs) {
        if (platform::now_ns() > end_ns)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

// How long it has waited, as it says.
int64_t waited_ns(const device::ChannelWait& wait) {
    const uint64_t since_ns = wait.since_ns.load(std::memory_order_relaxed);
    return since_ns != 0 ? platform::now_ns() - static_cast<int64_t>(since_ns)
                         : static_cast<int64_t>(wait.waited_ns.load(std::memory_order_relaxed));
}

} // namespace

TEST_CASE("a take that waits says for which run, how long, and no more once it has come") {
    for (const size_t bytes : {size_t{0}, size_t{8}, kLargestInChannel}) {
        CAPTURE(bytes);
        const Crossing crossing(bytes);
        const Line& line = crossing.line;
        for (uint64_t run = 1; run <= 3; ++run) {
            const int64_t before_ns = platform::now_ns();
            crossing.take.launch(crossing.receiver);
            REQUIRE(says(line.target_wait(), run));
            CHECK(soon([&] { return waited_ns(line.target_wait()) > 10'000'000; }));
            CHECK(waited_ns(line.target_wait()) <= platform::now_ns() - before_ns);
            CHECK(line.source_wait().runs == 0);
            crossing.put.launch(crossing.sender);
            crossing.receiver.finish();
            crossing.sender.finish();
            CHECK(line.target_wait().runs == 0);
        }
    }
}

TEST_CASE("a source that has no room, or waits for its message to be taken, says so, too") {
    for (const size_t bytes : {size_t{8}, kLargestInChannel}) {
        CAPTURE(bytes);
        const Crossing ahead(bytes);
        for (uint64_t run = 0; run <= kChannelPlaces; ++run)
            ahead.put.launch(ahead.sender);
        REQUIRE(says(ahead.line.source_wait(), 1));
        for (uint64_t run = 0; run <= kChannelPlaces; ++run)
            ahead.take.launch(ahead.receiver);
        ahead.receiver.finish();
        ahead.sender.finish();
        CHECK(ahead.line.source_wait().runs == 0);
    }
    const Crossing awaits(8, Crossing::Put::kAwaitsTaken);
    awaits.put.launch(awaits.sender);
    REQUIRE(says(awaits.line.source_wait(), 1));
    awaits.take.launch(awaits.receiver);
    awaits.receiver.finish();
    awaits.sender.finish();
    CHECK(awaits.line.source_wait().runs == 0);
}

TEST_CASE("a wait that a death ends is over") {
    const Crossing crossing(8);
    crossing.take.launch(crossing.receiver);
    REQUIRE(says(crossing.line.target_wait(), 1));
    crossing.line.lose_source();
    crossing.receiver.finish();
    CHECK(crossing.line.cut_at_target() == 1);
    CHECK(crossing.line.target_wait().runs == 0);
}

TEST_SUITE_END();

} // namespace gpurun::conformance::channel_waits
