// The processes of a job: its ranks with their groups, and what has left those.
#include "job.hpp"

#include "platform/adoption.hpp"
#include "platform/process_tree.hpp"
#include "platform/supervisors.hpp"

#include <algorithm>

namespace gpurun::launcher {

Job::~Job() {
    ranks_.clear(); // kills them and waits for their ends, so that their orphans are ours
    end_left_over();
}

std::vector<int> Job::rank_pids() const {
    std::vector<int> pids;
    for (const auto& rank : ranks_)
        pids.push_back(rank->process.pid());
    return pids;
}

// Children of gpurun that neither are ranks nor were adopted.
std::vector<int> Job::other_children() const {
    std::vector<int> pids = has_.older_children;
    pids.push_back(has_.guard.pid());
    if (mps_ != nullptr)
        for (const int pid : mps_->processes())
            pids.push_back(pid);
    return pids;
}

// A rank that has ended is not reaped yet: its group is still its own, and may have members. Daemons get it too; who
// has a parent in a session of its own does not: if that passes signals on, they would arrive twice.
void Job::signal_ranks(std::initializer_list<int> signals) {
    for (const auto& rank : ranks_)
        for (const int signal : signals)
            rank->process.signal_group(signal);
    platform::signal_adopted([this](int pid) { return is_own_child(pid); }, rank_pids(), signals);
}

// What stops and goes on is all that ranks have started, twice or not.
void Job::signal_everything(int signal) {
    for (const auto& rank : ranks_)
        rank->process.signal_group(signal);
    std::vector<int> spared = other_children();
    for (const int pid : platform::children_of_this())
        if (platform::is_supervisor(pid))
            spared.push_back(pid);
    platform::signal_strays(rank_pids(), spared, {signal});
}

bool Job::is_own_child(int pid) const {
    const std::vector<int> others = other_children();
    return std::find(others.begin(), others.end(), pid) != others.end() ||
           std::any_of(ranks_.begin(), ranks_.end(), [pid](const auto& rank) { return rank->process.pid() == pid; }) ||
           platform::is_supervisor(pid);
}

// REQUIRES: every rank has ended. What they have left running is not waited for.
void Job::end_left_over() {
    for (const auto& rank : ranks_)
        rank->process.signal_group(SIGKILL);
    if (has_.cgroup)
        has_.cgroup->kill();
    platform::end_adopted([this](int pid) { return is_own_child(pid); });
}

} // namespace gpurun::launcher
