#include "platform/process_tree.hpp"

#include "platform/clock.hpp"
#include "platform/process_state.hpp"
#include "platform/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <dirent.h>
#include <fstream>
#include <memory>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>
#include <unordered_map>

namespace gpurun::platform {

namespace {

// A tree that still grows after so many rounds grows faster than it can be killed.
constexpr int kMostRounds = 16;

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};

std::unordered_multimap<int, int> children_of_all() {
    std::unordered_multimap<int, int> children;
    for (const int pid : all_processes())
        if (const auto stat = process_stat(pid)) // else it has ended meanwhile
            children.emplace(stat->parent, pid);
    return children;
}

} // namespace

std::vector<int> all_processes() {
    std::vector<int> pids;
    const std::unique_ptr<DIR, CloseFolder> folder(::opendir("/proc"));
    if (folder == nullptr)
        return pids;
    while (const dirent* entry = ::readdir(folder.get())) {
        const std::string_view name = entry->d_name;
        int pid = 0;
        const auto [stop, failed] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (failed == std::errc{} && stop == name.data() + name.size())
            pids.push_back(pid);
    }
    return pids;
}

std::vector<int> children_of_this() {
    std::vector<int> pids;
    const std::string self = std::to_string(::getpid());
    std::ifstream list("/proc/self/task/" + self + "/children");
    if (list) {
        for (int pid = 0; list >> pid;)
            pids.push_back(pid);
        return pids;
    }
    const auto children = children_of_all(); // a kernel without CONFIG_PROC_CHILDREN
    const auto [begin, end] = children.equal_range(::getpid());
    for (auto child = begin; child != end; ++child)
        pids.push_back(child->second);
    return pids;
}

std::vector<int> descendants(int pid, const std::vector<int>& spared) {
    const std::unordered_multimap<int, int> children = children_of_all();
    std::vector<int> found{pid};
    for (size_t i = 0; i < found.size(); ++i) {
        const auto [begin, end] = children.equal_range(found[i]);
        for (auto child = begin; child != end; ++child)
            if (std::find(spared.begin(), spared.end(), child->second) == spared.end())
                found.push_back(child->second);
    }
    found.erase(found.begin());
    return found;
}

std::vector<int> kill_tree(int pid) {
    // Stopped, parents start nothing more and do not end, so that their children stay theirs until all are known. But
    // the system may end one just because it is stopped (SIGHUP, to a group that becomes an orphan): hence a look
    // before.
    std::vector<int> tree = descendants(pid);
    tree.insert(tree.begin(), pid);
    for (const int each : tree)
        ::kill(each, SIGSTOP);
    for (int round = 0; round < kMostRounds; ++round) {
        const size_t known = tree.size();
        for (const int found : descendants(pid))
            if (std::find(tree.begin(), tree.end(), found) == tree.end()) {
                ::kill(found, SIGSTOP);
                tree.push_back(found);
            }
        if (tree.size() == known)
            break;
    }
    for (const int each : tree)
        ::kill(each, SIGKILL);
    ::kill(-pid, SIGKILL);
    return tree;
}

bool wait_for_ends(const std::vector<int>& pids, int64_t limit_ms) {
    const int64_t deadline_ns = now_ns() + limit_ms * 1'000'000;
    for (const int pid : pids) {
        const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
        if (!pidfd) // reaped
            continue;
        pollfd ended{pidfd.get(), POLLIN, 0};
        int got = -1;
        do {
            const int64_t left_ms = (deadline_ns - now_ns()) / 1'000'000;
            got = ::poll(&ended, 1, left_ms > 0 ? static_cast<int>(left_ms) : 0);
        } while (got < 0 && errno == EINTR);
        if (got == 0)
            return false;
    }
    return true;
}

} // namespace gpurun::platform
