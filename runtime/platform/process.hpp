// Starting a program as a child process, and its end.
//
// The child leads a process group of its own, ends with the process that started it, and is watched by a pidfd.
// Between fork and exec it makes only system calls: whatever has to be computed is computed before.
// One thread starts and owns children (the kernel ties the death of the child to that thread).
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::platform {

class OrphanGuard;

// Where a program is, searched for as a shell does.
struct Program {
    std::string path;
    int exit_status = 0; // 0: found; 126: found, but it cannot be executed; 127: not found
    std::string reason;  // why exit_status is not 0
};
Program find_program(const std::string& name, const char* search_path);

struct SpawnRequest {
    std::string path;
    std::vector<std::string> arguments; // the first is the program's name
    std::vector<std::string> environment;
    int standard_in = 0;
    int standard_out = 1;
    int standard_error = 2;
    int foreground_of = -1;      // a terminal whose foreground the program's group gets; -1: none
    int inherited = -1;          // stays open in the program under the same number
    std::string folder;          // where the program runs; "": where this process does
    std::vector<int> cpus;       // empty: wherever this process may run
    std::vector<int> memory;     // NUMA nodes that memory comes from; empty: any
    bool strict_memory = false;  // never from others; where the system forbids that, the program does not start
    int cgroup = -1;             // a cgroup's folder; -1, or where the system cannot do it: this process's own
    sigset_t signal_mask{};      // what the program starts with
    size_t descriptor_limit = 0; // the program's soft limit of open descriptors; 0: this process's
    // If this process is killed, the kernel kills the program; or, with a guard, that ends it with its descendants.
    // The guard outlives the ChildProcess.
    const OrphanGuard* guard = nullptr;
};

struct ProcessEnd {
    bool by_signal = false;
    int value = 0; // exit status or signal
};

// What a program's start failed at.
struct StartFailure {
    enum class Step : int { kNone, kPreparing, kFolder, kMemory, kExec };
    Step step = Step::kNone;
    int error_number = 0;
};

class ChildProcess {
  public:
    static base::Result<ChildProcess> start(const SpawnRequest& request);

    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&& other) = delete;
    ~ChildProcess(); // kills the group, if the child has not been reaped

    // Waits until the program runs, or its start has failed.
    StartFailure wait_for_exec();

    int pid() const { return pid_; }
    int pidfd() const { return pidfd_.get(); } // readable once the child has ended
    // How it ended, if it has. It stays a zombie until reap(), so that its group's number stays its own.
    std::optional<ProcessEnd> end() const;
    // Whether it has been stopped since the last call, and still is.
    bool stopped() const;
    void signal(int signal) const;
    // Also the child itself, if it has gone to another group.
    void signal_group(int signal) const;
    // Kills it with all that it has started, whatever groups that has made, and waits for their ends.
    void end_tree() const;
    // Kills what is left of the group. REQUIRES: the child has ended, or it is waited for.
    void reap();

  private:
    ChildProcess(int pid, UniqueFd pidfd, UniqueFd exec_result, const OrphanGuard* guard)
        : pid_(pid), pidfd_(std::move(pidfd)), exec_result_(std::move(exec_result)), guard_(guard) {}

    int pid_ = -1; // -1: reaped, or moved from
    UniqueFd pidfd_;
    UniqueFd exec_result_;
    const OrphanGuard* guard_ = nullptr;
};

// The number of this process.
int own_pid();

// Lets this process open as many descriptors as the system allows. Returns how many it could before, for children.
size_t raise_descriptor_limit();

} // namespace gpurun::platform
