#include "platform/adoption.hpp"

#include "platform/clock.hpp"
#include "platform/process_tree.hpp"
#include "platform/system_error.hpp"

#include <algorithm>
#include <csignal>
#include <set>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {

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

void signal_adopted(const IsOwnChild& is_own, const std::vector<int>& leaders, std::initializer_list<int> signals) {
    std::set<int> groups;
    for (const int pid : adopted(is_own))
        groups.insert(::getpgid(pid));
    for (const int group : groups)
        if (group > 0 && group != ::getpgrp() && std::find(leaders.begin(), leaders.end(), group) == leaders.end())
            for (const int signal : signals)
                ::kill(-group, signal);
}

void end_adopted(const IsOwnChild& is_own) {
    const int64_t deadline_ns = now_ns() + kKilledEndMs * 1'000'000;
    while (true) {
        bury_adopted(is_own);
        const std::vector<int> left = adopted(is_own);
        const int64_t left_ms = (deadline_ns - now_ns()) / 1'000'000;
        if (left.empty() || left_ms <= 0)
            return;
        for (const int pid : left)
            ::kill(pid, SIGKILL);
        wait_for_ends(left, left_ms);
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
