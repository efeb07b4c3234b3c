#include "platform/byte_stream.hpp"

#include "base/format.hpp"
#include "platform/system_error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {

bool ready(int fd, short events) {
    pollfd query{fd, events, 0};
    return ::poll(&query, 1, 0) > 0;
}

// As terminals are. One that has gone gives EIO, as a disk that is broken does.
bool is_device(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && S_ISCHR(status.st_mode);
}

} // namespace

base::Result<Pipe> create_pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0)
        return system_error("creating a pipe");
    return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

UniqueFd own_write_end(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || (!S_ISFIFO(status.st_mode) && !is_terminal(fd)))
        return UniqueFd();
    // Opened anew, so that the flag is not that of the others.
    return UniqueFd(::open(base::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

Transfer read_now(int fd, std::span<char> buffer) {
    for (;;) {
        if (!ready(fd, POLLIN))
            return {StreamState::kWouldWait};
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got > 0)
            return {StreamState::kOpen, static_cast<size_t>(got)};
        if (got == 0)
            return {StreamState::kClosed};
        if (errno == EAGAIN)
            return {StreamState::kWouldWait};
        if (errno != EINTR)
            return {StreamState::kClosed, 0, errno};
    }
}

Transfer write_now(int fd, std::string_view data) {
    Transfer done;
    while (done.bytes < data.size()) {
        if (!ready(fd, POLLOUT)) {
            done.state = StreamState::kWouldWait;
            return done;
        }
        // A pipe that is ready has room for this much, and no more is promised.
        const size_t piece = std::min<size_t>(data.size() - done.bytes, PIPE_BUF);
        const ssize_t put = ::write(fd, data.data() + done.bytes, piece);
        if (put >= 0) {
            done.bytes += static_cast<size_t>(put);
        } else if (errno == EAGAIN) {
            done.state = StreamState::kWouldWait;
            return done;
        } else if (errno != EINTR) {
            done.state = StreamState::kClosed;
            done.error_number = errno == EPIPE || (errno == EIO && is_device(fd)) ? 0 : errno;
            return done;
        }
    }
    return done;
}

int write_all(int fd, std::string_view data) {
    while (!data.empty()) {
        const Transfer written = write_now(fd, data);
        if (written.state == StreamState::kClosed)
            return written.error_number;
        data.remove_prefix(written.bytes);
        pollfd room{fd, POLLOUT, 0};
        if (written.state == StreamState::kWouldWait)
            ::poll(&room, 1, -1);
    }
    return 0;
}

base::Result<void> print(std::string_view text) {
    if (const int failed = write_all(kStandardOutput, text); failed != 0)
        return system_error("standard output", failed);
    return {};
}

base::Result<std::string> read_file(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text;
    std::array<char, 4096> part;
    ssize_t length = fd ? 0 : -1;
    while (length >= 0 && (length = ::read(fd.get(), part.data(), part.size())) > 0)
        text.append(part.data(), static_cast<size_t>(length));
    if (length < 0)
        return system_error(path);
    return text;
}

base::Result<void> open_standard_streams() {
    for (int fd = 0; fd <= 2; ++fd)
        // open() gives the lowest number that is free, which is the closed one.
        if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0)
            return system_error("opening /dev/null");
    return {};
}

base::Result<UniqueFd> open_null() {
    UniqueFd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!fd)
        return system_error("opening /dev/null");
    return fd;
}

base::Result<UniqueFd> create_file(const std::string& path, std::string_view name) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
    if (!fd)
        return system_error(name.empty() ? path : name);
    return fd;
}

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

bool in_foreground(int fd) { return ::tcgetpgrp(fd) == ::getpgrp(); }

bool same_file(int a, int b) {
    struct stat of_a {};
    struct stat of_b {};
    return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

} // namespace gpurun::platform
