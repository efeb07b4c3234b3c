#include "platform/foreign_process.hpp"

#include "platform/cgroup.hpp"
#include "platform/system_error.hpp"

#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpurun::platform {

base::Result<ForeignProcess> ForeignProcess::watch(int pid) {
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd)
        return system_error("watching a process (all ranks of a job must be in one PID namespace)");
    return ForeignProcess(pid, std::move(pidfd));
}

void ForeignProcess::signal(int signal) const { ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0); }

base::Result<bool> go_into_background(int listener) {
    leave_cgroup_of_job();
    const pid_t child = ::fork();
    if (child < 0)
        return system_error("starting a process");
    if (child > 0)
        return false;
    ::setsid();
    for (const int each : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2})
        ::signal(each, SIG_IGN);
    ::fcntl(listener, F_SETFL, O_NONBLOCK);
    ::syscall(SYS_close_range, static_cast<unsigned>(listener + 1), UINT_MAX, 0u);
    if (::chdir("/") != 0)
        return system_error("leaving the folder of the rank");
    cpu_set_t all;
    std::memset(&all, 0xff, sizeof all);
    ::sched_setaffinity(0, sizeof all, &all);
    return true;
}

} // namespace gpurun::platform
