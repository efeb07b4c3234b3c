#include "platform/pseudo_terminal.hpp"

#include "base/format.hpp"
#include "platform/system_error.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

namespace gpurun::platform {

namespace {

base::Error no_terminal(int error_number) {
    if (error_number == ENOSPC) // which would read as if a disk were full
        return base::error(base::Status::kSystem, "all pseudo-terminals of the system are in use (kernel.pty.max)");
    return system_error("opening a pseudo-terminal (/dev/ptmx)", error_number);
}

bool make_raw(int fd) {
    termios mode{};
    if (::tcgetattr(fd, &mode) != 0)
        return false;
    ::cfmakeraw(&mode);
    return ::tcsetattr(fd, TCSANOW, &mode) == 0;
}

} // namespace

base::Result<Pipe> create_pseudo_terminal() {
    UniqueFd read_end(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    if (!read_end || ::unlockpt(read_end.get()) != 0)
        return no_terminal(errno);
    // Not by its name, which may mean nothing, or another one, where this process has a /dev/pts of its own.
    UniqueFd write_end(::ioctl(read_end.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!write_end || !make_raw(write_end.get()))
        return no_terminal(errno);
    return Pipe{std::move(read_end), std::move(write_end)};
}

WindowSize window_size(int fd) {
    winsize size{};
    if (::ioctl(fd, TIOCGWINSZ, &size) != 0)
        return {};
    return {size.ws_col, size.ws_row};
}

void set_window_size(int fd, WindowSize size) {
    winsize wanted{};
    wanted.ws_col = size.columns;
    wanted.ws_row = size.rows;
    ::ioctl(fd, TIOCSWINSZ, &wanted);
}

} // namespace gpurun::platform
