// Signals as a descriptor (signalfd), so that they arrive in the event loop and never in the middle of anything.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <csignal> // also for its includers, who name signals
#include <optional>
#include <span>
#include <string>

namespace gpurun::platform {

class SignalSource {
  public:
    // Blocks `signals`, `questions`, SIGPIPE and SIGXFSZ for this process. A signal that the process was started with
    // ignored (nohup, a job in a script's background) stays so: it is not listened for, unless it is a question, which
    // ends nothing. What a child starts with ignored is the same in both cases.
    static base::Result<SignalSource> create(std::span<const int> signals, std::span<const int> questions = {});

    // The next signal that has arrived, if any.
    std::optional<int> next();
    // Lets `signal`, which is listened for, do to this process what it does by default; returns if that goes on then.
    void take_default(int signal) const;
    int fd() const { return fd_.get(); }
    // The mask from before: what a child starts with.
    const sigset_t& original_mask() const { return original_; }

  private:
    SignalSource(UniqueFd fd, const sigset_t& original) : fd_(std::move(fd)), original_(original) {}

    UniqueFd fd_;
    sigset_t original_;
};

// While it lives, signals wait. Threads that are started meanwhile, as those of libraries, never get any: one that came
// to such a thread would do what it does by default, whatever this process listens for.
class SignalsBlocked {
  public:
    SignalsBlocked();
    ~SignalsBlocked();
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

// For people: "Segmentation fault".
std::string describe_signal(int signal);

} // namespace gpurun::platform
