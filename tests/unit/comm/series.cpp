// Which requests make a series, when it is completed directly, and when the next one is held.
#include "comm/series.hpp"
#include "comm/communicator.hpp"
#include "platform/clock.hpp"
#include "support/made_up.hpp"
#include "support/unit.hpp"

#include <thread>

using namespace gpurun;
using comm::Series;

namespace {

constexpr int64_t kLong = 1'000'000'000; // no enqueue is as fast as a test is slow

device::Stream stream(uintptr_t number) { return gpurun::test::made_up<device::Stream>(number); }

transfer::Operand operand(uintptr_t number) {
    transfer::Operand made;
    made.domain = transfer::Domain::kStream;
    made.stream = stream(number);
    return made;
}

// A call that starts one request. Whether that belongs to the series.
bool start(Series& series, uintptr_t in = 1, const comm::Communicator* of = nullptr) {
    const base::CallScope call("gpurun_isend");
    const bool belongs = series.add(operand(in), platform::now_ns(), true, of);
    Series::leave();
    return belongs;
}

// A call that completes so many. Whether it does so directly; ends the series.
bool complete(Series& series, size_t members, uintptr_t in = 1) {
    const base::CallScope call("gpurun_waitall");
    const bool directly = series.is_completed(stream(in), platform::now_ns(), members);
    series.end(directly);
    return directly;
}

void mistake(Series& series) {
    start(series);
    CHECK(series.is_held());
    CHECK_FALSE(complete(series, 0));
}

bool is_held_next(Series& series) {
    start(series);
    const bool held = series.is_held();
    CHECK(complete(series, 1));
    return held;
}

} // namespace

TEST_SUITE_BEGIN("series of requests");

TEST_CASE("calls in a row make a series, and a call that completes all of it there does so directly") {
    Series series(kLong);
    CHECK(start(series));
    CHECK(start(series));
    CHECK(complete(series, 2));
    CHECK(start(series));
    CHECK(start(series));
    CHECK_FALSE(complete(series, 1)); // one is left
    CHECK(start(series));
    CHECK_FALSE(complete(series, 1, 2)); // in another stream
}

TEST_CASE("collectives of one communicator make a series, without messages and those of others") {
    Series series(kLong);
    const comm::Communicator one(comm::kWorldId, comm::Group::of_all(2), base::WorldRank{0});
    const comm::Communicator other(comm::kWorldId + 1, comm::Group::of_all(2), base::WorldRank{0});
    CHECK(start(series, 1, &one));
    CHECK(start(series, 1, &one));
    CHECK(series.is_of_collectives());
    CHECK(complete(series, 2));
    const comm::Communicator* const none = nullptr;
    for (const auto& [first, second] : {std::pair(&one, &other), std::pair(&one, none), std::pair(none, &one)}) {
        CHECK(start(series, 1, first));
        CHECK_FALSE(start(series, 1, second));
        CHECK_FALSE(complete(series, 1));
    }
}

TEST_CASE("a series is broken by time, by another call, stream or thread, and begins anew behind its end") {
    SUBCASE("time in which something may have been enqueued") {
        Series series(1);
        CHECK(start(series));
        CHECK_FALSE(start(series));
        CHECK_FALSE(complete(series, 1));
    }
    Series series(kLong);
    SUBCASE("a call of another kind") {
        CHECK(start(series));
        { const base::CallScope call("gpurun_memcpy"); }
        CHECK_FALSE(start(series));
    }
    SUBCASE("the same, before the completion") {
        CHECK(start(series));
        { const base::CallScope call("gpurun_memcpy"); }
        CHECK_FALSE(complete(series, 1));
    }
    SUBCASE("another stream") {
        CHECK(start(series));
        CHECK_FALSE(start(series, 2));
    }
    SUBCASE("another thread") {
        CHECK(start(series));
        std::thread([&] { CHECK_FALSE(start(series)); }).join();
    }
    SUBCASE("more than a series has") {
        for (size_t i = 0; i < Series::kMost; ++i)
            CHECK(start(series));
        CHECK_FALSE(start(series));
    }
    SUBCASE("a captured message") {
        CHECK(start(series));
        transfer::Operand captured = operand(1);
        captured.domain = transfer::Domain::kGraph;
        CHECK_FALSE(series.add(captured, platform::now_ns(), true));
    }
    series.end(false);
    CHECK(start(series));
    CHECK(complete(series, 1));
}

TEST_CASE("a request of nobody breaks no series") {
    Series series(kLong);
    CHECK(start(series));
    {
        const base::CallScope call("gpurun_isend");
        series.pass(platform::now_ns());
        Series::leave();
    }
    CHECK(start(series));
    CHECK(complete(series, 2));
}

TEST_CASE("a series is held once those before were completed directly, and after a mistake only after more of them") {
    Series series(kLong);
    for (uint32_t i = 0; i < Series::kFirstNeeded; ++i)
        CHECK_FALSE(is_held_next(series));
    CHECK(is_held_next(series));
    uint32_t needed = Series::kFirstNeeded;
    for (int mistakes = 0; mistakes < 8; ++mistakes) {
        mistake(series);
        needed = std::min(2 * needed, Series::kMostNeeded);
        for (uint32_t i = 0; i < needed; ++i)
            CHECK_FALSE(is_held_next(series));
        CHECK(is_held_next(series));
    }
    CHECK(needed == Series::kMostNeeded);
    for (int i = 0; i < 100; ++i)
        CHECK(is_held_next(series));
    mistake(series);                                        // is forgiven
    mistake(series);                                        // counts
    for (uint32_t i = 0; i < 2 * Series::kFirstNeeded; ++i) // those before are forgotten
        CHECK_FALSE(is_held_next(series));
    CHECK(is_held_next(series));
}

TEST_CASE("one mistake in several is forgiven") {
    Series series(kLong);
    for (uint32_t i = 0; i < Series::kFirstNeeded; ++i)
        CHECK_FALSE(is_held_next(series));
    for (int mistakes = 0; mistakes < 10; ++mistakes) {
        for (uint32_t i = 0; i < Series::kForgiven; ++i)
            CHECK(is_held_next(series));
        mistake(series);
    }
    for (uint32_t i = 0; i + 1 < Series::kForgiven; ++i)
        CHECK(is_held_next(series));
    mistake(series);
    CHECK_FALSE(is_held_next(series));
}

// The one after the pause is completed directly.
TEST_CASE("a series that is interrupted goes on as another one, whose first part counts if it was short") {
    Series series(kLong);
    for (uint32_t i = 0; i < Series::kFirstNeeded; ++i)
        CHECK_FALSE(is_held_next(series));
    const auto interrupted_after = [&](size_t members) {
        for (size_t i = 0; i < members; ++i)
            CHECK(start(series));
        CHECK(series.is_held());
        const uint64_t first = series.number();
        {
            const base::CallScope call("gpurun_isend");
            CHECK_FALSE(series.is_interrupted(operand(1), platform::now_ns()));
            CHECK_FALSE(series.is_interrupted(operand(2), platform::now_ns() + kLong)); // is another stream's
            CHECK(series.is_interrupted(operand(1), platform::now_ns() + kLong));
            series.end_part();
            CHECK(series.add(operand(1), platform::now_ns(), true));
            Series::leave();
        }
        CHECK(series.number() == first + 1);
        const bool held = series.is_held();
        CHECK(complete(series, 1));
        return held;
    };
    CHECK(interrupted_after(Series::kLong));
    CHECK_FALSE(interrupted_after(Series::kLong - 1));
}

TEST_CASE("what is broken off, and what is full, goes on as another series") {
    Series series(kLong);
    CHECK(start(series));
    series.break_off();
    {
        const base::CallScope call("gpurun_isend");
        CHECK(series.is_interrupted(operand(1), platform::now_ns()));
    }
    series.end(false);
    for (size_t i = 0; i < Series::kMost; ++i)
        CHECK(start(series));
    const base::CallScope call("gpurun_isend");
    CHECK(series.is_interrupted(operand(1), platform::now_ns()));
}

TEST_CASE("none is held where nobody would end it in time") {
    Series series(kLong);
    for (int i = 0; i < 10; ++i) {
        const base::CallScope call("gpurun_isend");
        CHECK(series.add(operand(1), platform::now_ns(), false));
        CHECK_FALSE(series.is_held());
        Series::leave();
        series.end(true);
    }
}

TEST_SUITE_END();
