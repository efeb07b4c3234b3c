// The file of --trace: it appears under its name when it is complete, in place of what was there before.
//
// Until then it is written beside it, under a name of this process's own, and removed if it is given up.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <string>
#include <string_view>

namespace gpurun::launcher {

class TraceFile {
  public:
    // Whether one can be made, before anything is started. Leaves nothing.
    static base::Result<void> check(const std::string& path);

    static base::Result<TraceFile> create(const std::string& path);
    TraceFile(TraceFile&& other) noexcept;
    TraceFile& operator=(TraceFile&&) = delete;
    ~TraceFile();

    base::Result<void> write(std::string_view text);
    // No more will come.
    base::Result<void> finish();

  private:
    TraceFile(std::string name, std::string target, std::string partial, platform::UniqueFd fd)
        : name_(std::move(name)), target_(std::move(target)), partial_(std::move(partial)), fd_(std::move(fd)) {}

    std::string name_;    // as the user says it
    std::string target_;  // where it leads to, if it is a link
    std::string partial_; // "": finished, or moved from
    platform::UniqueFd fd_;
};

} // namespace gpurun::launcher
