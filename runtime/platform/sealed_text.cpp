#include "platform/sealed_text.hpp"

#include "base/format.hpp"
#include "platform/system_error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
} // namespace

base::Result<UniqueFd> seal_text(std::string_view text) {
    UniqueFd fd(::memfd_create("gpurun-text", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd)
        return system_error("creating shared memory");
    while (!text.empty()) {
        const ssize_t written = ::write(fd.get(), text.data(), text.size());
        if (written < 0 && errno != EINTR)
            return system_error("writing shared memory");
        text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(written, 0)));
    }
    if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
        return system_error("sealing shared memory");
    return fd;
}

base::Result<std::string> read_sealed_text(int fd, size_t most) {
    const int seals = ::fcntl(fd, F_GET_SEALS); // only memory has any
    struct stat status {};
    if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(fd, &status) != 0)
        return base::error(base::Status::kLauncher, "what was sent is no text");
    const auto size = static_cast<size_t>(status.st_size);
    if (size > most)
        return base::error(base::Status::kLauncher, "a text of {} bytes was sent, longer than {}", size, most);
    std::string text(size, '\0');
    for (size_t at = 0; at < size;) {
        const ssize_t got = ::pread(fd, text.data() + at, size - at, static_cast<off_t>(at));
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return system_error("reading shared memory");
        at += static_cast<size_t>(std::max<ssize_t>(got, 0));
    }
    return text;
}

} // namespace gpurun::platform
