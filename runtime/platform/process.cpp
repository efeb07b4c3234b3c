#include "platform/process.hpp"

#include "base/format.hpp"
#include "platform/byte_stream.hpp"
#include "platform/orphan_guard.hpp"
#include "platform/process_tree.hpp"
#include "platform/system_error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/sched.h> // clone_args
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {

constexpr size_t kWordBits = 8 * sizeof(unsigned long);

// A kernel bitmap of CPUs or NUMA nodes.
std::vector<unsigned long> bitmap(const std::vector<int>& numbers) {
    std::vector<unsigned long> words;
    for (const int number : numbers) {
        const size_t word = static_cast<size_t>(number) / kWordBits;
        if (word >= words.size())
            words.resize(word + 1);
        words[word] |= 1ul << (static_cast<size_t>(number) % kWordBits);
    }
    return words;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (const std::string& string : strings)
        result.push_back(const_cast<char*>(string.c_str()));
    result.push_back(nullptr);
    return result;
}

// Everything that the child needs, ready for system calls.
struct ChildPlan {
    const SpawnRequest& request;
    std::vector<char*> arguments;
    std::vector<char*> shell_arguments; // for a script without a first line that names its interpreter
    std::vector<char*> environment;
    std::vector<unsigned long> cpus;
    std::vector<unsigned long> nodes;
    int parent = -1;
    int result_fd = -1;
};

// Async-signal-safe. Binding is an advantage, not a condition: where the system forbids it, the program runs unbound.
// Except for memory that must not come from elsewhere. Returns errno.
int bind_child(const ChildPlan& plan) {
    if (!plan.cpus.empty())
        ::syscall(SYS_sched_setaffinity, 0, plan.cpus.size() * sizeof(unsigned long), plan.cpus.data());
    if (plan.nodes.empty())
        return 0;
    const int policy = plan.request.strict_memory ? MPOL_BIND : MPOL_PREFERRED;
    // The kernel reads one bit less than it is told.
    const long set = ::syscall(SYS_set_mempolicy, policy, plan.nodes.data(), plan.nodes.size() * kWordBits + 1);
    return set != 0 && plan.request.strict_memory ? errno : 0;
}

// Async-signal-safe. A process in the background may take the terminal while SIGTTOU is blocked.
void enter_foreground(int terminal) {
    sigset_t output;
    ::sigemptyset(&output);
    ::sigaddset(&output, SIGTTOU);
    ::sigprocmask(SIG_BLOCK, &output, nullptr);
    ::tcsetpgrp(terminal, ::getpid());
}

// Async-signal-safe. Returns errno of what failed; `step` says what it was.
int prepare_child(const ChildPlan& plan, StartFailure::Step& step) {
    using Step = StartFailure::Step;
    step = Step::kPreparing;
    ::setpgid(0, 0);
    if (plan.request.guard != nullptr) // told by the child itself: there is no moment at which nobody knows of it
        plan.request.guard->watch_tree(::getpid());
    else if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return errno;
    if (::getppid() != plan.parent) // it died before the line above
        ::_exit(1);
    step = Step::kMemory;
    if (const int failed = bind_child(plan); failed != 0)
        return failed;
    step = Step::kFolder;
    if (!plan.request.folder.empty() && ::chdir(plan.request.folder.c_str()) != 0)
        return errno;
    step = Step::kPreparing;
    if (::dup2(plan.request.standard_in, 0) < 0 || ::dup2(plan.request.standard_out, 1) < 0 ||
        ::dup2(plan.request.standard_error, 2) < 0)
        return errno;
    if (plan.request.foreground_of >= 0)
        enter_foreground(plan.request.foreground_of);
    if (plan.request.inherited >= 0 && ::fcntl(plan.request.inherited, F_SETFD, 0) != 0)
        return errno;
    if (rlimit limit{}; plan.request.descriptor_limit != 0 && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = plan.request.descriptor_limit;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (::sigprocmask(SIG_SETMASK, &plan.request.signal_mask, nullptr) != 0)
        return errno;
    return 0;
}

[[noreturn]] void run_child(const ChildPlan& plan) {
    StartFailure failed;
    failed.error_number = prepare_child(plan, failed.step);
    if (failed.error_number == 0) {
        failed.step = StartFailure::Step::kExec;
        ::execve(plan.request.path.c_str(), plan.arguments.data(), plan.environment.data());
        failed.error_number = errno;
        if (failed.error_number == ENOEXEC) {
            ::execve("/bin/sh", plan.shell_arguments.data(), plan.environment.data());
            failed.error_number = errno;
        }
    }
    [[maybe_unused]] const ssize_t told = ::write(plan.result_fd, &failed, sizeof failed);
    ::_exit(127);
}

// Moving a process into a cgroup later takes the kernel milliseconds.
pid_t fork_into(int cgroup) {
    if (cgroup >= 0) {
        clone_args arguments{};
        arguments.flags = CLONE_INTO_CGROUP;
        arguments.exit_signal = SIGCHLD;
        arguments.cgroup = static_cast<uint64_t>(cgroup);
        const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
        if (pid >= 0)
            return pid; // else it is refused, such as by a container's filter of system calls
    }
    return ::fork();
}

ChildPlan plan_child(const SpawnRequest& request, int result_fd) {
    ChildPlan plan{request};
    plan.arguments = pointers(request.arguments);
    plan.shell_arguments = {const_cast<char*>("sh"), const_cast<char*>(request.path.c_str())};
    plan.shell_arguments.insert(plan.shell_arguments.end(), plan.arguments.begin() + 1, plan.arguments.end());
    plan.environment = pointers(request.environment);
    plan.cpus = bitmap(request.cpus);
    plan.nodes = bitmap(request.memory);
    plan.parent = ::getpid();
    plan.result_fd = result_fd;
    return plan;
}

bool is_folder(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

Program check_program(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return {path, errno == ENOENT || errno == ENOTDIR ? 127 : 126, system_error(path).detail};
    if (is_folder(path))
        return {path, 126, path + ": is a directory"};
    if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0)
        return {path, 126, path + ": Permission denied (if it is a program, chmod +x lets it run)"};
    return {path};
}

} // namespace

Program find_program(const std::string& name, const char* search_path) {
    if (name.find('/') != std::string::npos)
        return check_program(name);
    std::optional<Program> unusable;
    std::string folders = search_path != nullptr ? search_path : "/usr/local/bin:/usr/bin:/bin";
    folders += ':';
    for (size_t begin = 0, end = 0; (end = folders.find(':', begin)) != std::string::npos; begin = end + 1) {
        const std::string folder = end == begin ? "." : folders.substr(begin, end - begin);
        Program candidate = check_program(folder + "/" + name);
        if (candidate.exit_status == 0)
            return candidate;
        if (candidate.exit_status == 126 && !unusable && !is_folder(candidate.path))
            unusable = std::move(candidate);
    }
    if (unusable)
        return *unusable;
    const bool is_here = check_program("./" + name).exit_status == 0;
    return {name, 127,
            name + ": not found in PATH" + (is_here ? "; write ./" + name + " for the one in this folder" : "")};
}

base::Result<ChildProcess> ChildProcess::start(const SpawnRequest& request) {
    GPURUN_ASSIGN(Pipe result, create_pipe());
    const ChildPlan plan = plan_child(request, result.write_end.get());
    const pid_t pid = fork_into(request.cgroup);
    if (pid < 0)
        return system_error("starting a process");
    if (pid == 0)
        run_child(plan);
    ::setpgid(pid, pid); // both sides do it: neither may go on before it is done
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    const int failed = errno;
    ChildProcess child(pid, std::move(pidfd), std::move(result.read_end), request.guard);
    if (!child.pidfd_)
        return system_error("watching a process (pidfd_open, Linux 5.3)", failed);
    return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)), exec_result_(std::move(other.exec_result_)),
      guard_(other.guard_) {}

ChildProcess::~ChildProcess() { reap(); }

StartFailure ChildProcess::wait_for_exec() {
    StartFailure failed;
    ssize_t got = 0;
    do
        got = ::read(exec_result_.get(), &failed, sizeof failed);
    while (got < 0 && errno == EINTR);
    exec_result_.reset();
    return got == static_cast<ssize_t>(sizeof failed) ? failed : StartFailure();
}

std::optional<ProcessEnd> ChildProcess::end() const {
    siginfo_t info{};
    if (pid_ < 0 || ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return std::nullopt;
    return ProcessEnd{info.si_code != CLD_EXITED, info.si_status};
}

bool ChildProcess::stopped() const {
    siginfo_t info{};
    return pid_ > 0 && ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == pid_;
}

void ChildProcess::signal(int signal) const {
    if (pid_ > 0)
        ::kill(pid_, signal);
}

void ChildProcess::signal_group(int signal) const {
    if (pid_ <= 0)
        return;
    ::kill(-pid_, signal);
    if (::getpgid(pid_) != pid_)
        ::kill(pid_, signal);
}

void ChildProcess::end_tree() const {
    if (pid_ > 0)
        wait_for_ends(kill_tree(pid_), kKilledEndMs);
}

void ChildProcess::reap() {
    if (pid_ < 0)
        return;
    signal_group(SIGKILL);
    if (guard_ != nullptr)
        guard_->forget_tree(pid_);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
}

int own_pid() { return ::getpid(); }

size_t raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    return before;
}

} // namespace gpurun::platform
