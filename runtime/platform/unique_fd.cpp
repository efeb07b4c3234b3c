#include "platform/unique_fd.hpp"

#include <unistd.h>

namespace gpurun::platform {

void UniqueFd::reset(int fd) {
    if (fd_ >= 0)
        ::close(fd_);
    fd_ = fd;
}

} // namespace gpurun::platform
