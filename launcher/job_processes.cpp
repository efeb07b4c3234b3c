// The processes of a job: its ranks with their groups, and what has left those.
#include "job.hpp"

#include "platform/adoption.hpp"

#include <algorithm>

namespace gpurun::launcher {

Job::~Job() {
    ranks_.clear(); // kills them and waits for their ends, so that their orphans are ours
    end_left_over();
}

// A rank that has ended is not reaped yet: its group is still its own, and may have members.
void Job::signal_ranks(std::initializer_list<int> signals) {
    std::vector<int> leaders;
    std::vector<int> spared = mps_ != nullptr ? mps_->processes() : std::vector<int>();
    spared.push_back(has_.guard.pid());
    for (const auto& rank : ranks_) {
        leaders.push_back(rank->process.pid());
        for (const int signal : signals)
            rank->process.signal_group(signal);
    }
    platform::signal_strays(leaders, spared, signals);
}

bool Job::is_own_child(int pid) const {
    const std::vector<int> of_mps = mps_ != nullptr ? mps_->processes() : std::vector<int>();
    return pid == has_.guard.pid() || std::find(of_mps.begin(), of_mps.end(), pid) != of_mps.end() ||
           std::any_of(ranks_.begin(), ranks_.end(), [pid](const auto& rank) { return rank->process.pid() == pid; });
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
