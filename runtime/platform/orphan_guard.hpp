// Ends the processes of a job whose launcher was killed before it could: a small process that outlives it.
//
// The kernel already kills children with their parent (process.hpp); the guard kills their process groups, so that
// nothing that the children started stays behind either.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

namespace gpurun::platform {

class OrphanGuard {
  public:
    static base::Result<OrphanGuard> create();

    OrphanGuard(OrphanGuard&& other) noexcept;
    OrphanGuard& operator=(OrphanGuard&& other) = delete;
    ~OrphanGuard(); // there will be no orphans: the guard ends without doing anything

    // From now on the group of the child `pid` is killed if this process ends without destroying the guard.
    void watch(int pid);

  private:
    OrphanGuard(int pid, UniqueFd told) : pid_(pid), told_(std::move(told)) {}

    int pid_ = -1; // -1: moved from
    UniqueFd told_;
};

} // namespace gpurun::platform
