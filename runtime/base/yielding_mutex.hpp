// A mutex whose holder can look whether somebody wants it, and let them have it first.
//
// For a thread that holds it while it polls: releasing at every look would cost more than the look, and releasing
// without letting go (std::mutex is not fair) would starve the others.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace gpurun::base {

class YieldingMutex {
  public:
    void lock() {
        if (mutex_.try_lock())
            return;
        waiting_.fetch_add(1, std::memory_order_relaxed); // advice only: the mutex orders everything
        mutex_.lock();
        waiting_.fetch_sub(1, std::memory_order_relaxed);
    }
    bool try_lock() { return mutex_.try_lock(); }
    void unlock() { mutex_.unlock(); }

    // REQUIRES that the caller holds it, before and after.
    void yield() {
        const int waiting = waiting_.load(std::memory_order_relaxed);
        if (waiting == 0)
            return;
        mutex_.unlock();
        for (int i = 0; i < kMostYields && waiting_.load(std::memory_order_relaxed) >= waiting; ++i)
            std::this_thread::yield();
        lock();
    }

  private:
    static constexpr int kMostYields = 100; // about the time that waking a thread takes

    std::mutex mutex_;
    std::atomic<int> waiting_{0};
};

} // namespace gpurun::base
