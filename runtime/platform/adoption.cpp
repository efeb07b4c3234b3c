#include "platform/adoption.hpp"

#include "platform/process_tree.hpp"
#include "platform/system_error.hpp"

#include <algorithm>
#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {

// Whoever is killed may leave orphans in turn. More generations than this are made faster than they can be killed.
constexpr int kMostRounds = 16;
// How long what was killed may take to end; more means that the kernel itself waits for something.
constexpr int64_t kEndMs = 5000;

std::vector<int> adopted(const IsOwnChild& is_own) {
    std::vector<int> pids = children_of_this();
    std::erase_if(pids, is_own);
    return pids;
}

} // namespace

base::Result<void> adopt_orphans() {
    std::signal(SIGCHLD, SIG_DFL);
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return system_error("becoming the parent of orphans (PR_SET_CHILD_SUBREAPER)");
    return {};
}

void bury_adopted(const IsOwnChild& is_own) {
    for (const int pid : adopted(is_own))
        ::waitpid(pid, nullptr, WNOHANG);
}

void end_adopted(const IsOwnChild& is_own) {
    for (int round = 0; round < kMostRounds; ++round) {
        bury_adopted(is_own);
        const std::vector<int> left = adopted(is_own);
        if (left.empty())
            return;
        for (const int pid : left)
            if (!wait_for_ends(kill_tree(pid), kEndMs))
                return;
    }
}

void signal_strays(const std::vector<int>& leaders, const std::vector<int>& spared,
                   std::initializer_list<int> signals) {
    for (const int pid : descendants(::getpid(), spared))
        if (std::find(leaders.begin(), leaders.end(), ::getpgid(pid)) == leaders.end())
            for (const int signal : signals)
                ::kill(pid, signal);
}

} // namespace gpurun::platform
