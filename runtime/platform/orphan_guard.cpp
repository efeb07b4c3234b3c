#include "platform/orphan_guard.hpp"

#include "platform/byte_stream.hpp"
#include "platform/system_error.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {

constexpr size_t kMostGroups = 256;

// Keeps only `fd`, as number 0: an inherited pipe would otherwise stay open for as long as the guard lives.
void keep_only(int fd) {
    ::dup2(fd, 0);
    if (::syscall(SYS_close_range, 1u, UINT_MAX, 0u) == 0)
        return;
    for (int other = 1; other < ::sysconf(_SC_OPEN_MAX); ++other) // before Linux 5.9
        ::close(other);
}

// Runs in the guard. The end of the pipe is the end of the launcher, whatever ended it.
[[noreturn]] void guard(int fd) {
    keep_only(fd);
    std::array<int, kMostGroups> groups;
    size_t count = 0;
    for (;;) {
        int pid = 0;
        const ssize_t got = ::read(0, &pid, sizeof pid);
        if (got == static_cast<ssize_t>(sizeof pid) && count < groups.size())
            groups[count++] = pid;
        else if (got >= 0 || errno != EINTR)
            break;
    }
    for (size_t i = 0; i < count; ++i)
        ::kill(-groups[i], SIGKILL);
    ::_exit(0);
}

} // namespace

base::Result<OrphanGuard> OrphanGuard::create() {
    GPURUN_ASSIGN(Pipe pipe, create_pipe());
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before); // the guard keeps them blocked
    const pid_t pid = ::fork();
    if (pid == 0)
        guard(pipe.read_end.get());
    const int failed = errno;
    // What kills the launcher's whole group spares the guard, from now on: set by us, because the guard itself may
    // not run for a while. What a terminal sends, the guard blocks.
    if (pid > 0)
        ::setpgid(pid, pid);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0)
        return system_error("starting a process", failed);
    return OrphanGuard(pid, std::move(pipe.write_end));
}

OrphanGuard::OrphanGuard(OrphanGuard&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), told_(std::move(other.told_)) {}

OrphanGuard::~OrphanGuard() {
    if (pid_ < 0)
        return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

void OrphanGuard::watch(int pid) {
    // Whole: a pipe takes a few bytes at once. Without a guard the job still runs.
    [[maybe_unused]] const ssize_t told = ::write(told_.get(), &pid, sizeof pid);
}

} // namespace gpurun::platform
