// A rank that makes no call until another one signals it (SIGUSR1): no message could wake it so.
#pragma once

#include "support/job.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace gpurun::test {

// While a rank sleeps for a signal, it makes no call: others move its messages, or nobody.
inline bool goes_on_without_calls() {
    const char* progress = std::getenv("GPURUN_PROGRESS");
    return progress == nullptr || std::strcmp(progress, "calls") != 0;
}

// Whether the partner's pid means the same here; says so if not. By both.
inline bool can_signal_partner() {
    struct stat own {};
    REQUIRE(stat("/proc/self/ns/pid", &own) == 0);
    ino_t partners = 0;
    REQUIRE_OK(gpurun_sendrecv(&own.st_ino, sizeof own.st_ino, GPURUN_BYTE, partner(), 0, &partners, sizeof partners,
                               GPURUN_BYTE, partner(), 0, kWorld, GPURUN_HOST, nullptr));
    if (partners != own.st_ino)
        MESSAGE("skipped: the partner is in another pid namespace, and cannot be signalled");
    return partners == own.st_ino;
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
