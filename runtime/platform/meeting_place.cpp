#include "platform/meeting_place.hpp"

#include "base/format.hpp"
#include "platform/job_segment.hpp"
#include "platform/private_folder.hpp"
#include "platform/process_tree.hpp"
#include "platform/system_error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {

using base::Result;
using base::Status;

constexpr size_t kLongestName = 64;
constexpr int kLockTries = 2000;  // together 10 s: the lock is held for milliseconds
constexpr int kFewLockTries = 20; // where the lock is not worth more
constexpr long kLockPauseNs = 5'000'000;

std::string runtime_folder() {
    const char* given = std::getenv("XDG_RUNTIME_DIR");
    if (given != nullptr && given[0] == '/')
        return std::string(given) + "/gpurun";
    return base::format("/tmp/gpurun-{}", ::geteuid());
}

bool is_same(const struct stat& one, const struct stat& other) {
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

Result<void> check_private(const std::string& folder, const struct stat& found) {
    if (S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() && (found.st_mode & 077) == 0)
        return {};
    return base::error(Status::kSetting,
                       "{} must be a folder of this user that nobody else can enter (mode 0700): remove it, or set "
                       "XDG_RUNTIME_DIR to a private folder",
                       folder);
}

Result<void> make_folder(const std::string& folder) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
        return system_error("making " + folder +
                            ", where the ranks of a job meet (XDG_RUNTIME_DIR names another place)");
    return {};
}

UniqueFd open_folder(const std::string& folder) {
    return UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// What it is, if it is private.
Result<struct stat> look_at(const UniqueFd& fd, const std::string& folder) {
    struct stat opened {};
    if (!fd || ::fstat(fd.get(), &opened) != 0)
        return system_error("opening " + folder);
    GPURUN_TRY(check_private(folder, opened));
    return opened;
}

Result<bool> take_lock(int fd, const std::string& folder, int tries) {
    for (int i = 0; i < tries; ++i) {
        if (::flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return system_error("locking " + folder);
        const timespec pause{0, kLockPauseNs};
        ::nanosleep(&pause, nullptr);
    }
    return base::error(Status::kSystem,
                       "{} has been locked for 10 s: a process that was joining a job has been stopped; end it",
                       folder);
}

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
}

Result<UniqueFd> new_socket(const std::string& path) {
    if (path.size() > kLongestSocketPath)
        return base::error(Status::kSetting,
                           "{} is longer than the {} bytes of a socket's path: use a shorter job name, or a shorter "
                           "XDG_RUNTIME_DIR",
                           path, kLongestSocketPath);
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!fd)
        return system_error("creating a control socket");
    return fd;
}

// Where a socket is until it listens. Nobody looks for it there.
std::string unfinished_of(const std::string& path) {
    const size_t name = path.rfind('/') + 1;
    return path.substr(0, name) + "." + path.substr(name);
}

int bind_to(int fd, const std::string& path) {
    const sockaddr_un address = address_of(path);
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

} // namespace

Result<void> check_meeting_name(const std::string& name) {
    const auto is_plain = [](unsigned char each) {
        return std::isalnum(each) != 0 || each == '-' || each == '_' || each == '.';
    };
    if (!name.empty() && name.size() <= kLongestName && name[0] != '.' &&
        std::all_of(name.begin(), name.end(), is_plain))
        return {};
    return base::error(Status::kSetting,
                       "'{}' cannot be the name of a job: use 1 to {} letters, digits, '-', '_' and '.', and no '.' "
                       "in front",
                       name, kLongestName);
}

Result<MeetingPlace> MeetingPlace::lock() { return lock_folder(runtime_folder(), true, kLockTries); }

Result<MeetingPlace> MeetingPlace::lock_of(const std::string& socket) {
    return lock_folder(socket.substr(0, socket.rfind('/')), false, kLockTries);
}

Result<MeetingPlace> MeetingPlace::lock_folder(const std::string& folder, bool make, int tries) {
    for (int i = 0; i < kMostFolderTries; ++i) {
        if (make)
            GPURUN_TRY(make_folder(folder));
        UniqueFd fd = open_folder(folder);
        if (!fd && errno == ENOENT && make)
            continue;
        GPURUN_ASSIGN(const struct stat opened, look_at(fd, folder));
        GPURUN_TRY(take_lock(fd.get(), folder, tries));
        struct stat there {};
        if (::lstat(folder.c_str(), &there) == 0 && is_same(there, opened))
            return MeetingPlace(folder, std::move(fd));
    }
    return base::error(Status::kSystem, "{} was removed again and again", folder);
}

Result<MessageSocket> MeetingPlace::connect(const std::string& path) const {
    GPURUN_ASSIGN(UniqueFd fd, new_socket(path));
    const sockaddr_un address = address_of(path);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        if (errno == ECONNREFUSED || errno == ENOENT)
            return MessageSocket();
        return system_error("connecting to " + path);
    }
    GPURUN_ASSIGN(const Counterpart other, counterpart(fd.get()));
    if (!other.same_user)
        return base::error(Status::kSystem, "{} belongs to another user's process ({}); remove it", path, other.pid);
    return MessageSocket(std::move(fd));
}

Result<UniqueFd> MeetingPlace::listen(const std::string& path) const {
    GPURUN_ASSIGN(UniqueFd fd, new_socket(path));
    ::unlink(path.c_str());
    if (bind_to(fd.get(), path) != 0 || listen_again(fd.get()) != 0)
        return system_error("making " + path);
    return fd;
}

void MeetingPlace::remove(const std::string& path) const {
    ::unlink(path.c_str());
    ::unlink(unfinished_of(path).c_str()); // of who was killed before it listened
    ::rmdir(folder_.c_str());              // if it is empty
}

namespace {

bool sweep(Result<MeetingPlace> place, const std::string& socket) {
    if (!place)
        return false;
    auto other = call_now(socket);
    if (!other || *other)
        return false;
    const bool was_there = ::access(socket.c_str(), F_OK) == 0;
    place->remove(socket);
    return was_there;
}

} // namespace

void sweep_meeting_place(const std::string& socket) { sweep(MeetingPlace::lock_of(socket), socket); }

bool sweep_now(const std::string& socket) {
    return sweep(MeetingPlace::lock_folder(socket.substr(0, socket.rfind('/')), false, kFewLockTries), socket);
}

// A killed process closes its descriptors in any order. While the one on which it listened is open, the socket looks
// like one in use; a call that nobody has taken ends with it.
void sweep_after_death(const std::string& socket) {
    if (auto other = call_now(socket); other && *other) {
        pollfd ended{other->fd(), 0, 0};
        while (::poll(&ended, 1, kKilledEndMs) < 0 && errno == EINTR) {
        }
    }
    sweep_meeting_place(socket);
}

Result<OwnSocket> OwnSocket::listen(const std::string& name) {
    std::string path = path_in_meeting_place(name);
    const std::string unfinished = unfinished_of(path);
    for (int i = 0; i < kMostFolderTries; ++i) {
        GPURUN_TRY(open_meeting_place());
        GPURUN_ASSIGN(UniqueFd fd, new_socket(unfinished));
        if (bind_to(fd.get(), unfinished) != 0) {
            if (errno == ENOENT)
                continue;
            return system_error("making " + unfinished);
        }
        OwnSocket socket(std::move(fd), unfinished);
        if (::fcntl(socket.fd(), F_SETFL, O_NONBLOCK) != 0 || listen_again(socket.fd()) != 0 ||
            ::rename(unfinished.c_str(), path.c_str()) != 0)
            return system_error("listening at " + path);
        socket.path_ = std::move(path);
        return socket;
    }
    return base::error(Status::kSystem, "{} was removed again and again", runtime_folder());
}

Result<OwnSocket> OwnSocket::claim(const std::string& name) {
    GPURUN_ASSIGN(const MeetingPlace place, MeetingPlace::lock());
    const std::string path = place.path_of(name);
    auto other = call_now(path);
    if (other ? static_cast<bool>(*other) : other.error().status == Status::kTimeout)
        return base::error(Status::kLauncher, "another process listens at {}", path);
    if (!other)
        return std::move(other).failure();
    const std::string unfinished = unfinished_of(path);
    GPURUN_ASSIGN(UniqueFd fd, place.listen(unfinished));
    if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0 || ::rename(unfinished.c_str(), path.c_str()) != 0)
        return system_error("making " + path);
    return OwnSocket(std::move(fd), path);
}

OwnSocket::~OwnSocket() {
    if (!fd_)
        return;
    ::unlink(path_.c_str());
    close_meeting_place();
}

std::string name_of_acceptance(const std::string& name) { return "@" + name; }

std::string path_in_meeting_place(const std::string& name) { return runtime_folder() + "/" + name; }

Result<std::string> open_meeting_place() {
    const std::string folder = runtime_folder();
    for (int i = 0; i < kMostFolderTries; ++i) {
        GPURUN_TRY(make_folder(folder));
        const UniqueFd opened = open_folder(folder);
        if (!opened && errno == ENOENT)
            continue;
        GPURUN_TRY(look_at(opened, folder));
        return folder;
    }
    return base::error(Status::kSystem, "{} was removed again and again", folder);
}

void close_meeting_place() {
    const std::string folder = runtime_folder();
    if (auto place = MeetingPlace::lock_folder(folder, false, kFewLockTries))
        ::rmdir(folder.c_str()); // if it is empty
}

Result<std::vector<std::string>> jobs_that_meet() {
    const std::string folder = runtime_folder();
    std::vector<std::string> paths;
    const UniqueFd opened = open_folder(folder);
    if (!opened && errno == ENOENT)
        return paths;
    GPURUN_TRY(look_at(opened, folder));
    std::error_code failed;
    for (std::filesystem::directory_iterator each(folder, failed), end; !failed && each != end; each.increment(failed))
        if (const std::string name = each->path().filename().string(); name[0] != '.' && name[0] != '@')
            paths.push_back(each->path().string());
    std::sort(paths.begin(), paths.end());
    return paths;
}

Result<MessageSocket> call_now(const std::string& path) {
    GPURUN_ASSIGN(UniqueFd fd, new_socket(path));
    const sockaddr_un address = address_of(path);
    if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0)
        return system_error("preparing to call " + path);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        struct stat there {};
        const int failed = errno;
        if (failed == EAGAIN)
            return base::error(Status::kTimeout, "{} takes no callers now", path);
        if (failed != ECONNREFUSED && failed != ENOENT)
            return system_error("connecting to " + path, failed);
        if (::lstat(path.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode))
            return base::error(Status::kSystem, "{} is not a socket: remove it", path);
        return MessageSocket();
    }
    GPURUN_ASSIGN(const Counterpart other, counterpart(fd.get()));
    if (!other.same_user)
        return base::error(Status::kSystem, "{} belongs to another user's process ({}); remove it", path, other.pid);
    return MessageSocket(std::move(fd));
}

int listen_again(int fd) { return ::listen(fd, static_cast<int>(kMaxRanks)); }

Result<Counterpart> counterpart(int socket) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
        return system_error("asking who is at the other end of a socket");
    return Counterpart{who.pid, who.uid == ::geteuid()};
}

Result<MessageSocket> accept_caller(int listener) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        return system_error("accepting a process that joins");
    return MessageSocket(std::move(fd));
}

Result<std::string> path_of_listener(int listener) {
    sockaddr_un address{};
    socklen_t size = sizeof address;
    int listens = 0;
    socklen_t flag = sizeof listens;
    if (::getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag) != 0 || listens == 0 ||
        ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        return base::error(Status::kLauncher, "--supervise is for libgpurun, which gives it a listening socket");
    return std::string(address.sun_path);
}

} // namespace gpurun::platform
