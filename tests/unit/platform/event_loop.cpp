// The event loop: readiness, ending watches from handlers, timers.
#include "platform/event_loop.hpp"
#include "platform/byte_stream.hpp"
#include "platform/clock.hpp"
#include "support/unit.hpp"

#include <memory>
#include <poll.h>

using namespace gpurun::platform;
using gpurun::test::must;

TEST_SUITE_BEGIN("event loop");

TEST_CASE("a handler runs when its descriptor is ready") {
    const auto loop = must(EventLoop::create());
    Pipe pipe = must(create_pipe());
    int calls = 0;
    Watch watch(*loop, pipe.read_end.get(), [&] { ++calls; });
    REQUIRE(watch.wait_for(Ready::kReadable));
    write_all(pipe.write_end.get(), "x");
    REQUIRE_OK(loop->run_once());
    CHECK(calls == 1);
}

TEST_CASE("a watch that an earlier handler of the round has ended is not called") {
    const auto loop = must(EventLoop::create());
    Pipe one = must(create_pipe());
    Pipe two = must(create_pipe());
    int calls = 0;
    Watch first;
    Watch second;
    const auto end_both = [&] {
        ++calls;
        first.stop(); // one of them is the watch whose handler this is
        second.stop();
    };
    first = Watch(*loop, one.read_end.get(), end_both);
    second = Watch(*loop, two.read_end.get(), end_both);
    first.wait_for(Ready::kReadable);
    second.wait_for(Ready::kReadable);
    write_all(one.write_end.get(), "x");
    write_all(two.write_end.get(), "x");
    REQUIRE_OK(loop->run_once());
    CHECK(calls == 1);
}

TEST_CASE("a watch that waits for nothing is not woken by the end of its stream") {
    const auto loop = must(EventLoop::create());
    Pipe pipe = must(create_pipe());
    bool woken = false;
    Watch watch(*loop, pipe.read_end.get(), [&] { woken = true; });
    watch.wait_for(Ready::kReadable);
    watch.wait_for(Ready::kNothing);
    pipe.write_end.reset();

    Timer timer = must(Timer::create());
    Watch timed(*loop, timer.fd(), [&] { timer.acknowledge(); });
    timed.wait_for(Ready::kReadable);
    timer.start(1);
    REQUIRE_OK(loop->run_once());
    CHECK_FALSE(woken);
}

TEST_CASE("a timer fires after its delay, once") {
    const auto loop = must(EventLoop::create());
    Timer timer = must(Timer::create());
    int fired = 0;
    Watch watch(*loop, timer.fd(), [&] {
        ++fired;
        timer.acknowledge();
    });
    watch.wait_for(Ready::kReadable);
    const int64_t before = now_ns();
    timer.start(20);
    REQUIRE_OK(loop->run_once());
    CHECK(fired == 1);
    CHECK(now_ns() - before >= 20'000'000);
}

TEST_CASE("a timer that an earlier handler of the round has started again has not passed") {
    const auto loop = must(EventLoop::create());
    Timer first = must(Timer::create());
    Timer second = must(Timer::create());
    int told = 0;
    int passed = 0;
    const auto handler = [&](Timer& own, Timer& other) {
        ++told;
        passed += own.acknowledge() ? 1 : 0;
        other.start(60'000);
    };
    Watch first_watch(*loop, first.fd(), [&] { handler(first, second); });
    Watch second_watch(*loop, second.fd(), [&] { handler(second, first); });
    first_watch.wait_for(Ready::kReadable);
    second_watch.wait_for(Ready::kReadable);
    first.start(0);
    second.start(0);
    pollfd both[] = {{first.fd(), POLLIN, 0}, {second.fd(), POLLIN, 0}};
    while (both[0].revents == 0 || both[1].revents == 0)
        REQUIRE(::poll(both, 2, -1) > 0);
    REQUIRE_OK(loop->run_once());
    CHECK(told == 2);
    CHECK(passed == 1);
}

TEST_SUITE_END();
