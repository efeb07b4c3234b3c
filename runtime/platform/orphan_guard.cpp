#include "platform/orphan_guard.hpp"

#include "base/format.hpp"
#include "platform/byte_stream.hpp"
#include "platform/cgroup.hpp"
#include "platform/job_name.hpp"
#include "platform/meeting_place.hpp"
#include "platform/private_folder.hpp"
#include "platform/process_tree.hpp"
#include "platform/system_error.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace gpurun::platform {

namespace {

enum class What : int { kGroup, kTree, kForgetTree, kJob, kCgroup, kFolder, kSocket };

// What the guard is told, in one write each.
struct Charge {
    What what = What::kGroup;
    int pid = -1;
    char path[1024] = {}; // or a name
};
static_assert(sizeof(Charge) <= PIPE_BUF, "a pipe takes it whole, or not at all");

// Ranks, a daemon, its folder. A launcher that tells more is not listened to any further.
constexpr size_t kMostCharges = 1024;
// How long killed processes may take to end before their folders are removed all the same: as a driver needs to take
// them apart on a busy machine. Nobody waits for the guard.
constexpr int64_t kOrphansEndMs = 60'000;
// A job that still grows after so many rounds grows faster than it can be killed.
constexpr int kMostHunts = 16;

// Keeps only `fd`, as number 0: an inherited pipe would otherwise stay open for as long as the guard lives.
void keep_only(int fd) {
    ::dup2(fd, 0);
    if (::syscall(SYS_close_range, 1u, UINT_MAX, 0u) == 0)
        return;
    for (int other = 1; other < ::sysconf(_SC_OPEN_MAX); ++other) // before Linux 5.9
        ::close(other);
}

// Those that are about to start others, or a program, are found in the next round.
void end_job(const std::string& name) {
    for (int round = 0; round < kMostHunts; ++round) {
        const ProcessesOfJob found = processes_of_job(name);
        for (const int pid : found.pids)
            ::kill(pid, SIGKILL);
        if ((found.pids.empty() && !found.uncertain) || !wait_for_ends(found.pids, kOrphansEndMs))
            return;
    }
}

void end_all(const std::vector<Charge>& charges) {
    std::vector<int> killed;
    for (const Charge& charge : charges)
        if (charge.what == What::kTree) {
            const std::vector<int> tree = kill_tree(charge.pid);
            killed.insert(killed.end(), tree.begin(), tree.end());
        }
    for (const Charge& charge : charges)
        if (charge.what == What::kGroup)
            ::kill(-charge.pid, SIGKILL);
    for (const Charge& charge : charges)
        if (charge.what == What::kCgroup)
            end_cgroup(charge.path, kOrphansEndMs);
        else if (charge.what == What::kJob)
            end_job(charge.path);
    wait_for_ends(killed, kOrphansEndMs);
    for (const Charge& charge : charges)
        if (charge.what == What::kFolder)
            remove_folder(charge.path);
        else if (charge.what == What::kSocket)
            sweep_meeting_place(charge.path);
}

// Runs in the guard. The end of the pipe is the end of the launcher, whatever ended it. (A child between fork and
// exec holds the pipe open as well, so what it tells is heard.)
[[noreturn]] void guard(int fd, int launcher) {
    keep_only(fd);
    std::vector<Charge> charges;
    for (;;) {
        Charge charge;
        const ssize_t got = ::read(0, &charge, sizeof charge);
        if (got == static_cast<ssize_t>(sizeof charge)) {
            if (charge.what == What::kForgetTree)
                std::erase_if(
                    charges, [&](const Charge& known) { return known.what == What::kTree && known.pid == charge.pid; });
            else if (charges.size() < kMostCharges)
                charges.push_back(charge);
        } else if (got >= 0 || errno != EINTR) {
            break;
        }
    }
    // Its pipe closes before its children are orphans. Whom we stop by then gets SIGHUP.
    wait_for_ends({launcher}, kOrphansEndMs);
    end_all(charges);
    ::_exit(0);
}

// Without a guard the job still runs.
void tell(int fd, const Charge& charge) { [[maybe_unused]] const ssize_t told = ::write(fd, &charge, sizeof charge); }

base::Result<void> tell_path(int fd, What what, const std::string& path) {
    Charge charge{what};
    if (path.size() >= sizeof charge.path)
        return base::error(base::Status::kSystem, "{} is longer than {} bytes", path, sizeof charge.path - 1);
    std::memcpy(charge.path, path.data(), path.size());
    tell(fd, charge);
    return {};
}

} // namespace

base::Result<OrphanGuard> OrphanGuard::create() {
    GPURUN_ASSIGN(Pipe pipe, create_pipe());
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before); // the guard keeps them blocked
    const pid_t launcher = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0)
        guard(pipe.read_end.get(), launcher);
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

void OrphanGuard::watch(int pid) const { tell(told_.get(), {What::kGroup, pid}); }

void OrphanGuard::watch_tree(int pid) const { tell(told_.get(), {What::kTree, pid}); }

void OrphanGuard::forget_tree(int pid) const { tell(told_.get(), {What::kForgetTree, pid}); }

void OrphanGuard::watch_job(const std::string& name) const {
    static_cast<void>(tell_path(told_.get(), What::kJob, name));
}

base::Result<void> OrphanGuard::watch_cgroup(const std::string& path) const {
    return tell_path(told_.get(), What::kCgroup, path);
}

base::Result<void> OrphanGuard::watch_folder(const std::string& path) const {
    return tell_path(told_.get(), What::kFolder, path);
}

base::Result<void> OrphanGuard::watch_socket(const std::string& path) const {
    return tell_path(told_.get(), What::kSocket, path);
}

} // namespace gpurun::platform
