// A cgroup of a job's own (version 2). Whatever its ranks start is in it, even if it has detached itself, and the
// kernel kills all of it with one write, forks included.
//
// Only where the system lets this user make one: in a container or a service of root's, or where systemd has
// delegated a part of the tree. Elsewhere adoption.hpp finds what ranks have left behind.
#pragma once

#include "platform/unique_fd.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace gpurun::platform {

class Cgroup {
  public:
    // The path of the job's, below this process's own cgroup. Known before the cgroup exists, so that the guard can be
    // told first. None where the system has no version 2.
    static std::optional<std::string> path_of(const std::string& job);
    // Nothing if the system refuses, or has no cgroup.kill (Linux 5.14). First removes what jobs have left there whose
    // launcher and guard were killed together.
    static std::optional<Cgroup> create(const std::string& path);

    Cgroup(Cgroup&& other) noexcept = default;
    Cgroup& operator=(Cgroup&& other) = delete;
    ~Cgroup(); // kills all that is in it, and removes it

    int fd() const { return folder_.get(); } // children can be started in it
    const std::string& path() const { return path_; }
    void kill() const;

  private:
    Cgroup(std::string path, UniqueFd folder) : path_(std::move(path)), folder_(std::move(folder)) {}

    std::string path_;
    UniqueFd folder_; // none: moved from
};

// Moves this process out of the cgroup of the job that it was started by, so that it does not end with that. Nothing
// happens if it is in none.
void leave_cgroup_of_job();

// Kills all that is in the cgroup, and removes it with those that were made in it; gives up after so long, which means
// that the kernel itself waits for something. Nothing happens if it is not there.
void end_cgroup(const std::string& path, int64_t limit_ms);

} // namespace gpurun::platform
