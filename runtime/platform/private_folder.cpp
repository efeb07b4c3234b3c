#include "platform/private_folder.hpp"

#include "platform/system_error.hpp"

#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {
// A process that was just killed may still be making a file when its folder is removed.
constexpr int kMostTries = 10;
constexpr mode_t kOnlyOwner = 0700;
} // namespace

base::Result<PrivateFolder> PrivateFolder::create(const std::string& prefix) {
    const char* chosen = std::getenv("TMPDIR");
    std::error_code failed;
    const std::filesystem::path parent =
        std::filesystem::absolute(chosen != nullptr && *chosen != '\0' ? chosen : "/tmp", failed);
    std::string path = (parent / (prefix + "XXXXXX")).string();
    if (failed || ::mkdtemp(path.data()) == nullptr)
        return system_error("making a folder in " + parent.string() + " (TMPDIR names another place)");
    return PrivateFolder(std::move(path));
}

PrivateFolder::~PrivateFolder() {
    if (!path_.empty())
        remove_folder(path_);
}

base::Result<std::string> PrivateFolder::add_folder(const std::string& name) const {
    std::string path = path_ + "/" + name;
    if (::mkdir(path.c_str(), kOnlyOwner) != 0)
        return system_error("making " + path);
    return path;
}

base::Result<UniqueFd> PrivateFolder::add_file(const std::string& name) const {
    const std::string path = path_ + "/" + name;
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, kOnlyOwner & 0666));
    if (!fd)
        return system_error("making " + path);
    return fd;
}

void remove_folder(const std::string& path) {
    std::error_code failed;
    for (int i = 0; i < kMostTries; ++i) {
        std::filesystem::remove_all(path, failed);
        if (!failed)
            return;
    }
}

base::Result<FolderWatch> FolderWatch::create(const std::string& folder) {
    UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!fd || ::inotify_add_watch(fd.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO) < 0)
        return system_error("watching " + folder + " (inotify)");
    return FolderWatch(std::move(fd));
}

void FolderWatch::acknowledge() {
    alignas(inotify_event) std::array<char, 4096> events;
    while (::read(fd_.get(), events.data(), events.size()) > 0) {
    }
}

} // namespace gpurun::platform
