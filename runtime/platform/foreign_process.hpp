// A process that this one did not start: watched and signalled through a pidfd.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

namespace gpurun::platform {

class ForeignProcess {
  public:
    ForeignProcess() = default;
    static base::Result<ForeignProcess> watch(int pid);

    int pid() const { return pid_; }           // 0: none
    int pidfd() const { return pidfd_.get(); } // readable once it has ended
    void signal(int signal) const;

  private:
    ForeignProcess(int pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

    int pid_ = 0;
    UniqueFd pidfd_;
};

// Goes on in a child, which leaves the job's cgroup, the session, the folder, the cores and all descriptors of the
// process that was started, but for the standard streams and `listener`, which accepts without waiting from then on. It
// ignores what people and systems send to programs by name or to end a session. True in the child, false in the process
// that was started, which is to end.
base::Result<bool> go_into_background(int listener);

} // namespace gpurun::platform
