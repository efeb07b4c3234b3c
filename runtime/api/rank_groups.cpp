#include "api/rank_groups.hpp"

#include "base/format.hpp"

namespace gpurun::api {

using base::Result;
using base::Status;
using Members = RankGroups::Members;

static base::Error no_such_group(gpurun_group group) {
    if (group.id == GPURUN_GROUP_NULL.id)
        return base::error(Status::kArgument, "GPURUN_GROUP_NULL is no group: use gpurun_comm_group()");
    return base::error(Status::kArgument, "{} is not a group of this process: it was freed before, or never made",
                       group.id);
}

gpurun_group RankGroups::add(Members members) {
    if (members.group->size() == 0)
        return GPURUN_GROUP_EMPTY;
    const std::lock_guard lock(mutex_);
    groups_.emplace(++last_, std::move(members));
    return gpurun_group{last_};
}

Result<Members> RankGroups::find(gpurun_group group) {
    if (group.id == GPURUN_GROUP_EMPTY.id)
        return empty_;
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(group.id);
    if (found == groups_.end())
        return no_such_group(group);
    return found->second;
}

Result<Members> RankGroups::find_with(const Members& one, gpurun_group other) {
    GPURUN_ASSIGN(Members found, find(other));
    if (one.job != 0 && found.job != 0 && one.job != found.job)
        return base::error(Status::kArgument,
                           "the groups have ranks of two jobs: a joint job's ranks are others than those of a job of "
                           "its own, also where they are the same processes");
    if (found.job == 0) {
        found.job = one.job;
        found.self = one.self;
    }
    return found;
}

Result<void> RankGroups::erase(gpurun_group group) {
    if (group.id == GPURUN_GROUP_EMPTY.id)
        return {};
    const std::lock_guard lock(mutex_);
    return groups_.erase(group.id) != 0 ? Result<void>() : Result<void>(no_such_group(group));
}

} // namespace gpurun::api
