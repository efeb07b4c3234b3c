// A temporary folder of this process's own, and being told of what appears in a folder.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <string>

namespace gpurun::platform {

// The longest path that a UNIX socket can have.
constexpr size_t kLongestSocketPath = 107;

// Only this user can look into it (0700). Removed with all that is in it.
class PrivateFolder {
  public:
    // In $TMPDIR, or /tmp; its name begins with `prefix`.
    static base::Result<PrivateFolder> create(const std::string& prefix);

    PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    PrivateFolder& operator=(PrivateFolder&& other) = delete;
    ~PrivateFolder();

    const std::string& path() const { return path_; } // absolute
    // A folder in it.
    base::Result<std::string> add_folder(const std::string& name) const;
    // A new file in it, to be written.
    base::Result<UniqueFd> add_file(const std::string& name) const;

  private:
    explicit PrivateFolder(std::string path) : path_(std::move(path)) {}

    std::string path_; // "": moved from
};

// Removes a folder with all that is in it. Nothing happens if there is none.
void remove_folder(const std::string& path);

// Readable once something has been made in a folder (inotify).
class FolderWatch {
  public:
    static base::Result<FolderWatch> create(const std::string& folder);

    int fd() const { return fd_.get(); }
    // Makes it unreadable until something else is made.
    void acknowledge();

  private:
    explicit FolderWatch(UniqueFd fd) : fd_(std::move(fd)) {}

    UniqueFd fd_;
};

} // namespace gpurun::platform
