#include "platform/process_state.hpp"
#include "support/unit.hpp"

#include <atomic>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace gpurun::platform;

TEST_SUITE_BEGIN("process state");

TEST_CASE("this process runs") {
    CHECK(process_state(::getpid()).letter == 'R');
    CHECK(describe(process_state(::getpid())) == "runs");
}

TEST_CASE("a process that is stopped is said to be, and one that is gone is not known") {
    const pid_t child = ::fork();
    if (child == 0) {
        ::raise(SIGSTOP);
        ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
    CHECK(process_state(child).stopped());
    CHECK(describe(process_state(child)) == "is stopped");
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(process_state(child).letter == 0);
    CHECK(describe(process_state(child)) == "is in an unknown state");
}

TEST_CASE("a process has ended once it is gone, is yet to be waited for, or its number is another's") {
    CHECK_FALSE(has_ended(::getpid(), started_at(::getpid())));
    CHECK_FALSE(has_ended(::getpid(), 0));
    CHECK(started_at(::getpid()) != 0);
    CHECK(has_ended(::getpid(), started_at(::getpid()) + 1));
    const pid_t child = ::fork();
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    const uint64_t started = started_at(child);
    CHECK_FALSE(has_ended(child, started));
    ::kill(child, SIGKILL);
    siginfo_t ended{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
    CHECK(has_ended(child, started));
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    CHECK(has_ended(child, started));
    CHECK(started_at(child) == 0);
}

TEST_CASE("processes may end while they are looked at") {
    std::atomic<pid_t> latest{::getpid()};
    std::atomic<bool> over{false};
    std::thread looks([&] {
        while (!over)
            static_cast<void>(process_state(latest));
    });
    for (int i = 0; i < 2000; ++i) {
        const pid_t child = ::vfork(); // copies nothing, which takes a sanitized process 30 ms
        if (child == 0)
            ::_exit(0);
        latest = child;
        ::waitpid(child, nullptr, 0);
    }
    over = true;
    looks.join();
}

TEST_CASE("where it sleeps is said if the system says it") {
    CHECK(describe(ProcessState{'S', "futex_wait_queue"}) == "sleeps in futex_wait_queue");
    CHECK(describe(ProcessState{'S', ""}) == "sleeps");
}

TEST_SUITE_END();
