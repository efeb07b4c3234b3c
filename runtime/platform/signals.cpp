#include "platform/signals.hpp"

#include "platform/system_error.hpp"

#include <cstring>
#include <sys/signalfd.h>
#include <unistd.h>

namespace gpurun::platform {

base::Result<SignalSource> SignalSource::create(std::span<const int> signals, std::span<const int> questions) {
    sigset_t listened;
    ::sigemptyset(&listened);
    for (const int signal : signals) {
        struct sigaction action {};
        // A blocked signal reaches a signalfd even if it is ignored, so those have to be left out here.
        if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
            ::sigaddset(&listened, signal);
    }
    for (const int signal : questions)
        ::sigaddset(&listened, signal);
    sigset_t blocked = listened;
    ::sigaddset(&blocked, SIGPIPE); // a closed output is seen as the error of the write
    ::sigaddset(&blocked, SIGXFSZ); // and so is a file that may not grow
    sigset_t original;
    if (::sigprocmask(SIG_BLOCK, &blocked, &original) != 0)
        return system_error("blocking signals");
    UniqueFd fd(::signalfd(-1, &listened, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd)
        return system_error("listening for signals");
    return SignalSource(std::move(fd), original);
}

std::optional<int> SignalSource::next() {
    signalfd_siginfo info{};
    if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info))
        return std::nullopt;
    return static_cast<int>(info.ssi_signo);
}

void SignalSource::take_default(int signal) const {
    sigset_t only;
    ::sigemptyset(&only);
    ::sigaddset(&only, signal);
    ::kill(::getpid(), signal);
    ::sigprocmask(SIG_UNBLOCK, &only, nullptr); // here it arrives
    ::sigprocmask(SIG_BLOCK, &only, nullptr);
}

SignalsBlocked::SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
        ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::string describe_signal(int signal) {
    const char* text = ::strsignal(signal);
    return text != nullptr ? text : "unknown signal";
}

} // namespace gpurun::platform
