#include "platform/cgroup.hpp"

#include "platform/clock.hpp"
#include "platform/job_name.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {

// Of a job that has ended, so that not much is left in it.
constexpr int64_t kMembersEndMs = 5000;

// Where version 2 is mounted; "" if nowhere. A line: id parent device root target options [tag...] - type source more
std::string mount_point() {
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        const size_t separator = line.find(" - cgroup2 ");
        if (separator == std::string::npos)
            continue;
        std::istringstream words(line.substr(0, separator));
        std::string id;
        std::string parent;
        std::string device;
        std::string root;
        std::string target;
        words >> id >> parent >> device >> root >> target;
        if (root == "/") // of the tree, or of this process's cgroup namespace
            return target;
    }
    return "";
}

constexpr const char* kOfJob = "gpurun-"; // in front of the job's name

// This process's own, below the mount point; "" if it is in none, or in one that cannot be seen.
std::string own_path() {
    std::ifstream lines("/proc/self/cgroup");
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("0::/") && line.find("/..") == std::string::npos)
            return line.substr(3);
    return "";
}

void write_to(const std::string& path, char digit) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    [[maybe_unused]] const ssize_t written = ::write(file.get(), &digit, 1);
}
void write_one(const std::string& path) { write_to(path, '1'); }

// Those that ranks have made in it go first. EBUSY while somebody is in one of them.
bool remove_tree(const std::string& path) {
    std::error_code failed; // somebody else may remove one at the same time
    for (std::filesystem::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed))
        if (entry->is_directory(failed) && !remove_tree(entry->path().string()))
            return false;
    return ::rmdir(path.c_str()) == 0 || errno == ENOENT;
}

// Others may remove a new one as long as it is not locked.
constexpr int kMostTries = 16;

bool has_processes(int folder) {
    const UniqueFd events(::openat(folder, "cgroup.events", O_RDONLY | O_CLOEXEC));
    std::array<char, 256> text;
    const ssize_t got = ::read(events.get(), text.data(), text.size());
    return got <= 0 || std::string_view(text.data(), static_cast<size_t>(got)).find("populated 0") == std::string::npos;
}

// Those of jobs whose launcher and guard were killed together, as a batch system does with all of a step. Only empty
// ones: who still runs in one is not ours to end.
void remove_abandoned(const std::filesystem::path& parent) {
    const std::string_view start = kOfJob;
    std::error_code failed;
    for (std::filesystem::directory_iterator entry(parent, failed), end; !failed && entry != end;
         entry.increment(failed)) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with(start) || !is_job_name(name.substr(start.size())))
            continue;
        const UniqueFd folder(::open(entry->path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        // Its launcher, while it lives, has it locked.
        if (folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 && !has_processes(folder.get()))
            remove_tree(entry->path().string());
    }
}

// Returns once the number of processes in it may have changed.
void wait_for_change(int events, int64_t limit_ms) {
    std::array<char, 256> text;
    pollfd change{events, POLLPRI, 0};
    ::poll(&change, 1, static_cast<int>(limit_ms));
    [[maybe_unused]] const ssize_t got = ::pread(events, text.data(), text.size(), 0);
}

} // namespace

std::optional<std::string> Cgroup::path_of(const std::string& job) {
    const std::string mount = mount_point();
    const std::string own = own_path();
    if (mount.empty() || own.empty())
        return std::nullopt;
    return mount + own + (own.back() == '/' ? "" : "/") + kOfJob + job;
}

std::optional<Cgroup> Cgroup::create(const std::string& path) {
    remove_abandoned(std::filesystem::path(path).parent_path());
    for (int i = 0; i < kMostTries; ++i) {
        if (::mkdir(path.c_str(), 0755) != 0)
            return std::nullopt;
        Cgroup made(path, UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
        const bool taken = ::flock(made.fd(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (made.folder_ && !taken && ::faccessat(made.fd(), "cgroup.kill", W_OK, AT_EACCESS) == 0)
            return made;
        made.folder_.reset();
        if (const bool was_there = ::rmdir(path.c_str()) == 0; was_there && !taken)
            return std::nullopt; // it cannot be used
    }
    return std::nullopt;
}

Cgroup::~Cgroup() {
    if (folder_)
        end_cgroup(path_, kMembersEndMs);
}

void Cgroup::kill() const { write_one(path_ + "/cgroup.kill"); }

void leave_cgroup_of_job() {
    const std::string own = own_path();
    const std::string start = std::string("/") + kOfJob;
    // Of several jobs in each other, the outermost. What others call gpurun-something is not ours.
    for (size_t at = own.find(start); at != std::string::npos; at = own.find(start, at + 1)) {
        const size_t name = at + start.size();
        const size_t end = std::min(own.find('/', name), own.size());
        if (!is_job_name(own.substr(name, end - name)))
            continue;
        write_to(mount_point() + own.substr(0, at) + "/cgroup.procs", '0'); // 0: whoever writes it
        return;
    }
}

void end_cgroup(const std::string& path, int64_t limit_ms) {
    if (::rmdir(path.c_str()) == 0)
        return;
    write_one(path + "/cgroup.kill");
    const UniqueFd events(::open((path + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
    const int64_t deadline_ns = now_ns() + limit_ms * 1'000'000;
    while (!remove_tree(path) && now_ns() < deadline_ns)
        wait_for_change(events.get(), 100);
}

} // namespace gpurun::platform
