// What becomes of channels whose other side has died: waits end, and say so; what had come is taken.
#include "line.hpp"

#include <chrono>

namespace gpurun::conformance::channel_deaths {

TEST_SUITE_BEGIN("channels of the dead");

TEST_CASE("a take whose source dies ends without the message, as do those after it, and says so") {
    for (const size_t bytes : {size_t{0}, size_t{8}, kLargestInChannel}) {
        CAPTURE(bytes);
        const Crossing crossing(bytes);
        untouch(crossing.destination.get(), kLargestInChannel);
        crossing.take.launch(crossing.receiver);
        watch();
        CHECK_FALSE(crossing.receiver.done());
        CHECK(crossing.line.cut_at_target() == 0);
        crossing.line.lose_source();
        crossing.receiver.finish();
        CHECK(crossing.line.cut_at_target() == 1);
        crossing.take.launch(crossing.receiver);
        crossing.take.launch(crossing.receiver);
        crossing.receiver.finish();
        CHECK(crossing.line.cut_at_target() == 1);
        CHECK(crossing.line.cut_at_source() == 0);
        CHECK(untouched(crossing.destination.get(), kLargestInChannel));
    }
}

TEST_CASE("a take that begins while its source dies ends, at whatever moment that is") {
    constexpr unsigned kDeaths = 2000;
    Line line(8);
    const Pinned destination(8);
    const Stream receiver;
    const Graph take(receiver, [&](device::Stream in) { line.take(destination.get(), 8, in); });
    for (unsigned death = 0; death < kDeaths; ++death) {
        CAPTURE(death);
        take.launch(receiver);
        const auto moment = std::chrono::steady_clock::now() + std::chrono::nanoseconds(death % 100 * 200);
        while (std::chrono::steady_clock::now() < moment) {
        }
        line.lose_source();
        receiver.finish();
        REQUIRE(line.cut_at_target() == 1);
        line.clear(8);
        line.find_source();
    }
}

TEST_CASE("what had come before its source died is taken, and only that") {
    for (const size_t bytes : kChannelSizes) {
        CAPTURE(bytes);
        const Crossing crossing(bytes);
        if (bytes != 0)
            write(crossing.source.get(), pattern(bytes, 27));
        for (unsigned run = 0; run < kChannelPlaces; ++run)
            crossing.put.launch(crossing.sender);
        crossing.sender.finish();
        crossing.line.lose_source();
        const auto take = [&] {
            untouch(crossing.destination.get(), kLargestInChannel);
            crossing.take.launch(crossing.receiver);
            crossing.receiver.finish();
        };
        for (unsigned run = 0; run < kChannelPlaces; ++run) {
            take();
            CHECK(crossing.took(pattern(bytes, 27)));
            CHECK(crossing.line.cut_at_target() == 0);
        }
        take();
        CHECK(untouched(crossing.destination.get(), kLargestInChannel));
        CHECK(crossing.line.cut_at_target() == 1);
    }
}

TEST_CASE("a put that waits for a target that dies ends, as do those after it, and says so") {
    for (const size_t bytes : {size_t{0}, size_t{8}, kLargestInChannel}) {
        CAPTURE(bytes);
        const Crossing crossing(bytes);
        for (unsigned run = 0; run < kChannelPlaces + 2; ++run)
            crossing.put.launch(crossing.sender);
        watch();
        CHECK_FALSE(crossing.sender.done());
        CHECK(crossing.line.cut_at_source() == 0);
        crossing.line.lose_target();
        crossing.sender.finish();
        CHECK(crossing.line.cut_at_source() == 1);
        crossing.put.launch(crossing.sender);
        crossing.sender.finish();
        CHECK(crossing.line.cut_at_target() == 0);
    }
}

TEST_CASE("a source whose target dies before it has taken the latest run goes on, and says so") {
    for (const size_t bytes : {size_t{0}, size_t{8}, kLargestInChannel}) {
        CAPTURE(bytes);
        const Crossing crossing(bytes, Crossing::Put::kAwaitsTaken);
        crossing.put.launch(crossing.sender);
        crossing.take.launch(crossing.receiver);
        crossing.receiver.finish();
        crossing.sender.finish();
        crossing.put.launch(crossing.sender);
        watch();
        CHECK_FALSE(crossing.sender.done());
        CHECK(crossing.line.cut_at_source() == 0);
        crossing.line.lose_target();
        crossing.sender.finish();
        CHECK(crossing.line.cut_at_source() == 1);
    }
}

TEST_CASE("a pull whose source dies copies nothing, and says so") {
    constexpr size_t kBytes = 300'001;
    Line line(0);
    const Memory source(kBytes);
    const Memory destination(kBytes);
    const Pinned got(kBytes);
    write(destination.get(), Bytes(kBytes, kUntouched));
    const Stream sender;
    const Stream receiver;
    const Graph put(sender, [&](device::Stream in) { line.put(nullptr, in); });
    const Graph pull(receiver, [&](device::Stream in) { line.pull(destination.get(), source.get(), kBytes, in); });
    pull.launch(receiver);
    watch();
    CHECK_FALSE(receiver.done());
    line.lose_source();
    pull.launch(receiver);
    REQUIRE_OK(subject().copy(got.get(), destination.get(), kBytes, receiver));
    receiver.finish();
    CHECK(line.cut_at_target() == 1);
    CHECK(untouched(got.get(), kBytes));
    CHECK(read(line.ticket(), sizeof(uint32_t)) == Bytes(sizeof(uint32_t)));
}

TEST_CASE("a wait for a signal whose source dies ends, and says so") {
    Line line(0);
    const Stream receiver;
    const Graph await(receiver, [&](device::Stream in) { line.await_put(in); });
    await.launch(receiver);
    watch();
    CHECK_FALSE(receiver.done());
    line.lose_source();
    receiver.finish();
    CHECK(line.cut_at_target() == 1);
}

} // namespace gpurun::conformance::channel_deaths
