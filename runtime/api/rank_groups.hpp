// The groups of ranks that the program has, by their handles. Any thread.
//
// A handle is never given twice. The empty group has one that is always there. Ranks of different jobs have nothing in
// common: a group says of which job its ranks are, and groups of two jobs do not go together.
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
    struct Members {
        std::shared_ptr<const comm::Group> group;
        uint64_t job = 0;          // the name of the communicator of all its ranks; 0: the empty group, which has none
        comm::WorldRank self = {}; // this process there

        const comm::Group& operator*() const { return *group; }
        const comm::Group* operator->() const { return group.get(); }
        Members with(comm::Group members) const {
            return {std::make_shared<const comm::Group>(std::move(members)), job, self};
        }
    };

    gpurun_group add(Members members);
    // kArgument if there is none with this handle.
    base::Result<Members> find(gpurun_group group);
    // The second one of two that are of one job. kArgument if they are not, too.
    base::Result<Members> find_with(const Members& one, gpurun_group other);
    base::Result<void> erase(gpurun_group group);

  private:
    std::mutex mutex_;
    std::unordered_map<uint64_t, Members> groups_;
    uint64_t last_ = 1; // GPURUN_GROUP_EMPTY
    const Members empty_{std::make_shared<const comm::Group>(std::vector<comm::WorldRank>())};
};

} // namespace gpurun::api
