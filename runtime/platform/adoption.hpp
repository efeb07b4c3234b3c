// Orphans of a job: daemons, and whatever else its programs have started and left without a parent.
//
// This process adopts them (PR_SET_CHILD_SUBREAPER), in whatever sessions and groups they are, so that it can find
// them, reap them when they end, and end them with the job. Callers say which children are their own, by pid: those are
// watched and reaped by others.
#pragma once

#include "base/status.hpp"

#include <functional>
#include <initializer_list>
#include <vector>

namespace gpurun::platform {

using IsOwnChild = std::function<bool(int pid)>;

// From now on orphans among the descendants become children of this process. Also asks the system to leave ended
// children to it, if it was started with SIGCHLD ignored.
base::Result<void> adopt_orphans();

// Reaps adopted children that have ended.
void bury_adopted(const IsOwnChild& is_own);

// Sends each of `signals` to the groups of adopted children, except for those that `leaders` lead. What has a parent
// that lives is left to that.
void signal_adopted(const IsOwnChild& is_own, const std::vector<int>& leaders, std::initializer_list<int> signals);

// Kills adopted children, those that are adopted as a consequence, and so on, and waits for their ends.
void end_adopted(const IsOwnChild& is_own);

// Sends each of `signals` to all descendants of this process that are in none of the groups that `leaders` lead, nor
// are or descend from `spared`.
void signal_strays(const std::vector<int>& leaders, const std::vector<int>& spared, std::initializer_list<int> signals);

} // namespace gpurun::platform
