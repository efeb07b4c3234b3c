// A mutex whose holder can look whether somebody wants it, and let them have it first.
//
// For a thread that holds it while it polls: releasing at every look would cost more than the look, and releasing
// without letting go would starve the others.
//
// It is held for short times and contended rarely, so its ends cost as little as they can: one read-modify-write to
// lock and a plain store to unlock. Whoever finds it held looks again, ever less often: nobody has to be woken.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace gpurun::base {

class YieldingMutex {
  public:
    void lock() {
        if (!try_lock())
            wait_for_it();
    }
    // Gives up after about `limit`.
    bool try_lock_for(std::chrono::nanoseconds limit) {
        if (try_lock())
            return true;
        const auto end = std::chrono::steady_clock::now() + limit;
        waiting_.fetch_add(1, std::memory_order_relaxed);
        bool locked = false;
        while (!locked && std::chrono::steady_clock::now() < end) {
            std::this_thread::sleep_for(std::chrono::microseconds(kSleepUs));
            locked = try_lock();
        }
        waiting_.fetch_sub(1, std::memory_order_relaxed);
        return locked;
    }
    bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
    // Release: publishes all that was done under it; pairs with the acquire in try_lock().
    void unlock() { held_.store(false, std::memory_order_release); }

    // Whether somebody waits for it.
    bool is_wanted() const { return waiting_.load(std::memory_order_relaxed) != 0; }

    // REQUIRES that the caller holds it, before and after.
    void yield() {
        const int waiting = waiting_.load(std::memory_order_relaxed);
        if (waiting == 0)
            return;
        unlock();
        for (int i = 0; i < kMostYields && waiting_.load(std::memory_order_relaxed) >= waiting; ++i)
            std::this_thread::yield();
        lock();
    }

  private:
    void wait_for_it() {
        waiting_.fetch_add(1, std::memory_order_relaxed); // advice only: held_ orders everything
        for (int looks = 0; held_.load(std::memory_order_relaxed) || !try_lock(); ++looks) {
            if (looks < kLooksAwake)
                std::this_thread::yield();
            else
                std::this_thread::sleep_for(std::chrono::microseconds(kSleepUs));
        }
        waiting_.fetch_sub(1, std::memory_order_relaxed);
    }

    static constexpr int kMostYields = 100; // more than a thread that looks needs to see that it is free
    static constexpr int kLooksAwake = 200; // about 50 us: a holder that takes longer is in a call of the device's
    static constexpr int kSleepUs = 50;

    std::atomic<bool> held_{false};
    std::atomic<int> waiting_{0};
};

} // namespace gpurun::base
