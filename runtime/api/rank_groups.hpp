// The groups of ranks that the program has, by their handles. Any thread.
//
// A handle is never given twice. The empty group has one that is always there.
#pragma once

#include "base/status.hpp"
#include "comm/group.hpp"

#include <gpurun/gpurun.h>

#include <memory>
#include <mutex>
#include <unordered_map>

namespace gpurun::api {

class RankGroups {
  public:
    using Members = std::shared_ptr<const comm::Group>;

    gpurun_group add(Members members);
    gpurun_group add(comm::Group members) { return add(std::make_shared<const comm::Group>(std::move(members))); }
    // kArgument if there is none with this handle.
    base::Result<Members> find(gpurun_group group);
    base::Result<void> erase(gpurun_group group);

  private:
    std::mutex mutex_;
    std::unordered_map<uint64_t, Members> groups_;
    uint64_t last_ = 1; // GPURUN_GROUP_EMPTY
    const Members empty_ = std::make_shared<const comm::Group>(std::vector<comm::WorldRank>());
};

} // namespace gpurun::api
