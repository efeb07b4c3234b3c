// The guard: a small process that outlives the launcher, and ends the job's processes if the launcher was killed.
//
// The kernel kills the ranks with their parent (process.hpp). The guard kills their process groups, so that nothing
// that they have started stays behind. Processes that have left the groups it finds by the job's cgroup, if there is
// one, and by the job's name in their environment. A program that the kernel does not kill (SpawnRequest::guard) is
// ended by the guard with all its descendants, which it has to find while their parent still lives. Folders are removed
// last.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <string>

namespace gpurun::platform {

class OrphanGuard {
  public:
    static base::Result<OrphanGuard> create();

    OrphanGuard(OrphanGuard&& other) noexcept;
    OrphanGuard& operator=(OrphanGuard&& other) = delete;
    ~OrphanGuard(); // there will be no orphans: the guard ends without doing anything

    // From now on, if this process ends without destroying the guard:
    // the group of the child `pid` is killed;
    void watch(int pid) const;
    // the process `pid` is killed with its group and its descendants (async-signal-safe);
    void watch_tree(int pid) const;
    void forget_tree(int pid) const; // its number is about to become another's
    // all processes of the job are killed (job_name.hpp);
    void watch_job(const std::string& name) const;
    // the cgroup is ended;
    base::Result<void> watch_cgroup(const std::string& path) const;
    // the folder is removed, after all of the above have ended. kSystem if its path is too long to be told.
    base::Result<void> watch_folder(const std::string& path) const;

    // the socket is removed, unless another process listens there by then (meeting_place.hpp).
    base::Result<void> watch_socket(const std::string& path) const;

    int pid() const { return pid_; }

  private:
    OrphanGuard(int pid, UniqueFd told) : pid_(pid), told_(std::move(told)) {}

    int pid_ = -1; // -1: moved from
    UniqueFd told_;
};

} // namespace gpurun::platform
