// Sees another process of the job end.
#pragma once

#include <gpurun/gpurun.h>

#include <poll.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace faults {

class ProcessWatch {
  public:
    // REQUIRES: it lives, or was not waited for yet.
    explicit ProcessWatch(int pid)
        : pidfd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))), waiter_([this] {
              if (valid() && is_gone(kMostMs))
                  gone_at_ = gpurun_wtime();
          }) {}
    ~ProcessWatch() {
        if (waiter_.joinable())
            waiter_.join();
        close(pidfd_);
    }
    ProcessWatch(const ProcessWatch&) = delete;
    ProcessWatch& operator=(const ProcessWatch&) = delete;

    bool valid() const { return pidfd_ >= 0; }
    // With all its threads, and everything that the system takes down with a process.
    bool is_gone(int within_ms = 0) const {
        pollfd ended{pidfd_, POLLIN, 0};
        return poll(&ended, 1, within_ms) == 1;
    }
    // By gpurun_wtime(), as seen by a thread that waits for it.
    double gone_at() {
        if (waiter_.joinable())
            waiter_.join();
        return gone_at_;
    }

  private:
    static constexpr int kMostMs = 20000; // of a test

    int pidfd_;
    double gone_at_ = 0;
    std::thread waiter_;
};

} // namespace faults
