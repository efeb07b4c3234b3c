#include "platform/unique_fd.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace gpurun::platform {

void UniqueFd::reset(int fd) {
    if (fd_ >= 0)
        ::close(fd_);
    fd_ = fd;
}

UniqueFd UniqueFd::duplicate() const { return UniqueFd(::fcntl(fd_, F_DUPFD_CLOEXEC, 0)); }

size_t most_descriptors() {
    constexpr size_t kUsual = 1024;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return kUsual;
    return static_cast<size_t>(limit.rlim_cur);
}

} // namespace gpurun::platform
