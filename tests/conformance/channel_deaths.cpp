// What becomes of channels whose other side has died: waits end, and say so; what had come is taken.
#include "line.hpp"

#include <chrono>

using namespace gpurun;
using namespace gpurun::conformance;

TEST_SUITE_BEGIN("channels of the dead");

TEST_CASE("a take whose source dies ends without the message, as do those after it, and says so") {
    for (const size_t bytes : {size_t{0}, size_t{8}, kLargestInChannel}) {
        CAPTURE(bytes);
        Line line(bytes);
        const Pinned destination(kLargestInChannel);
        std::memset(destination.get(), static_cast<int>(kUntouched), kLargestInChannel);
        const Stream receiver;
        const Graph take(receiver, [&](device::Stream in) { line.take(destination.get(), bytes, in); });
        take.launch(receiver);
        watch();
        CHECK_FALSE(receiver.done());
        CHECK(line.cut_at_target() == 0);
        line.lose_source();
        receiver.finish();
        CHECK(line.cut_at_target() == 1);
        take.launch(receiver);
        take.launch(receiver);
        receiver.finish();
        CHECK(line.cut_at_target() == 1);
        CHECK(line.cut_at_source() == 0);
        CHECK(untouched(destination.get(), kLargestInChannel));
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
        Line line(bytes);
        const Memory source(kLargestInChannel);
        const Pinned destination(kLargestInChannel);
        if (bytes != 0)
            write(source.get(), pattern(bytes, 27));
        const Stream sender;
        const Stream receiver;
        const Graph put(sender, [&](device::Stream in) { line.put(source.get(), in); });
        const Graph take(receiver, [&](device::Stream in) { line.take(destination.get(), bytes, in); });
        for (unsigned run = 0; run < kChannelPlaces; ++run)
            put.launch(sender);
        sender.finish();
        line.lose_source();
        for (unsigned run = 0; run < kChannelPlaces; ++run) {
            std::memset(destination.get(), static_cast<int>(kUntouched), kLargestInChannel);
            take.launch(receiver);
            receiver.finish();
            CHECK(Bytes(destination.get(), destination.get() + bytes) == pattern(bytes, 27));
            CHECK(line.cut_at_target() == 0);
        }
        std::memset(destination.get(), static_cast<int>(kUntouched), kLargestInChannel);
        take.launch(receiver);
        receiver.finish();
        CHECK(untouched(destination.get(), kLargestInChannel));
        CHECK(line.cut_at_target() == 1);
    }
}

TEST_CASE("a put that waits for a target that dies ends, as do those after it, and says so") {
    for (const size_t bytes : {size_t{0}, size_t{8}, kLargestInChannel}) {
        CAPTURE(bytes);
        Line line(bytes);
        const Memory source(kLargestInChannel);
        const Stream sender;
        const Graph put(sender, [&](device::Stream in) { line.put(source.get(), in); });
        for (unsigned run = 0; run < kChannelPlaces + 2; ++run)
            put.launch(sender);
        watch();
        CHECK_FALSE(sender.done());
        CHECK(line.cut_at_source() == 0);
        line.lose_target();
        sender.finish();
        CHECK(line.cut_at_source() == 1);
        put.launch(sender);
        sender.finish();
        CHECK(line.cut_at_target() == 0);
    }
}

TEST_CASE("a source whose target dies before it has taken the latest run goes on, and says so") {
    for (const size_t bytes : {size_t{0}, size_t{8}, kLargestInChannel}) {
        CAPTURE(bytes);
        Line line(bytes);
        const Memory source(kLargestInChannel);
        const Pinned destination(kLargestInChannel);
        const Stream sender;
        const Stream receiver;
        const Graph put(sender, [&](device::Stream in) {
            line.put(source.get(), in);
            line.await_taken(in);
        });
        const Graph take(receiver, [&](device::Stream in) { line.take(destination.get(), bytes, in); });
        put.launch(sender);
        take.launch(receiver);
        receiver.finish();
        sender.finish();
        put.launch(sender);
        watch();
        CHECK_FALSE(sender.done());
        CHECK(line.cut_at_source() == 0);
        line.lose_target();
        sender.finish();
        CHECK(line.cut_at_source() == 1);
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
