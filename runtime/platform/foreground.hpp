// The terminal that this process is in the foreground of, lent to a child.
//
// Only the process group in the foreground reads what is typed, and gets the signals of keys (^C, ^Z). A child that is
// to have both, such as a debugger, leads a group of its own and moves it there before it starts its program
// (SpawnRequest::foreground_of). This process is in the background meanwhile. It takes the terminal back when the child
// ends or stops: otherwise a shell would not get the terminal, or not in the mode in which it was.
#pragma once

#include <memory>
#include <termios.h>

namespace gpurun::platform {

class TerminalLoan {
  public:
    // Null: `fd` is no terminal, or this process is not in its foreground. From then on SIGTTOU is blocked, so that
    // this process is not stopped for what it prints or changes there from the background.
    static std::unique_ptr<TerminalLoan> of(int fd);
    ~TerminalLoan() { take_back(); }
    TerminalLoan(const TerminalLoan&) = delete;
    TerminalLoan& operator=(const TerminalLoan&) = delete;

    int fd() const { return fd_; }
    // Does nothing while this process is in the background, where the terminal is not its own.
    void give_to(int group) const;
    // In the mode in which it was lent.
    void take_back() const;

  private:
    TerminalLoan(int fd, const termios& mode) : fd_(fd), mode_(mode) {}

    int fd_;
    termios mode_;
};

} // namespace gpurun::platform
