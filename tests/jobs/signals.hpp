// A rank that makes no call until another one signals it (SIGUSR1): no message could wake it so.
#pragma once

#include "support/job.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace gpurun::test {

// While a rank sleeps for a signal, it makes no call: others move its messages, or nobody.
inline bool goes_on_without_calls() {
    const char* progress = std::getenv("GPURUN_PROGRESS");
    return progress == nullptr || std::strcmp(progress, "calls") != 0;
}

inline int g_pipe[2];

inline void await_signal() {
    REQUIRE(pipe(g_pipe) == 0);
    std::signal(SIGUSR1, [](int) {
        const ssize_t ignored = write(g_pipe[1], "", 1);
        (void)ignored;
    });
}

// After await_signal().
inline void sleep_until_signal() {
    char ignored = 0;
    while (read(g_pipe[0], &ignored, 1) != 1) {
    }
    close(g_pipe[0]);
    close(g_pipe[1]);
}

} // namespace gpurun::test
