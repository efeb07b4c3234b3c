// Owns one file descriptor.
#pragma once

#include <cstddef>
#include <utility>

namespace gpurun::platform {

class UniqueFd {
  public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        reset(std::exchange(other.fd_, -1));
        return *this;
    }
    ~UniqueFd() { reset(); }

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void reset(int fd = -1);
    UniqueFd duplicate() const; // without a descriptor if the process has no more

  private:
    int fd_ = -1;
};

size_t most_descriptors(); // that this process may have open

} // namespace gpurun::platform
