#include "platform/foreground.hpp"

#include "platform/byte_stream.hpp"

#include <csignal>
#include <unistd.h>

namespace gpurun::platform {

std::unique_ptr<TerminalLoan> TerminalLoan::of(int fd) {
    termios mode{};
    if (!in_foreground(fd) || ::tcgetattr(fd, &mode) != 0)
        return nullptr;
    sigset_t output;
    ::sigemptyset(&output);
    ::sigaddset(&output, SIGTTOU);
    ::sigprocmask(SIG_BLOCK, &output, nullptr);
    return std::unique_ptr<TerminalLoan>(new TerminalLoan(fd, mode));
}

void TerminalLoan::give_to(int group) const {
    if (in_foreground(fd_))
        ::tcsetpgrp(fd_, group);
}

void TerminalLoan::take_back() const {
    if (in_foreground(fd_) || ::tcsetpgrp(fd_, ::getpgrp()) != 0)
        return;
    ::tcsetattr(fd_, TCSADRAIN, &mode_);
}

} // namespace gpurun::platform
