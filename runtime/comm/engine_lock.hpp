// The lock of a rank's engine, which guards everything below api/: held for short enqueues and for CPU copies, and by a
// thread that spins unless another wants it, but never asleep.
//
// There is one engine a process, and many classes that it is made of. So that clang can check across them who holds the
// lock, it is one name for all: whoever is to be called with it says GPURUN_REQUIRES(engine_lock).
#pragma once

#include "base/thread_annotations.hpp"
#include "base/yielding_mutex.hpp"

#include <mutex>

namespace gpurun::comm {

class GPURUN_CAPABILITY("engine lock") EngineLockName {};
inline constexpr EngineLockName engine_lock;

class GPURUN_SCOPED_CAPABILITY EngineLock {
  public:
    explicit EngineLock(base::YieldingMutex& mutex) GPURUN_ACQUIRE(engine_lock) : mutex_(mutex) { mutex.lock(); }
    // Of one that the caller has locked.
    EngineLock(base::YieldingMutex& mutex, std::adopt_lock_t) GPURUN_ACQUIRE(engine_lock) : mutex_(mutex) {}
    ~EngineLock() GPURUN_RELEASE() {
        if (held_)
            mutex_.unlock();
    }
    EngineLock(const EngineLock&) = delete;
    EngineLock& operator=(const EngineLock&) = delete;

    void lock() GPURUN_ACQUIRE(engine_lock) GPURUN_NO_ANALYSIS {
        mutex_.lock();
        held_ = true;
    }
    void unlock() GPURUN_RELEASE(engine_lock) GPURUN_NO_ANALYSIS {
        held_ = false;
        mutex_.unlock();
    }
    // Lets others have it first, if they want it.
    void yield() GPURUN_REQUIRES(engine_lock) { mutex_.yield(); }
    bool is_wanted() const { return mutex_.is_wanted(); }

  private:
    base::YieldingMutex& mutex_;
    bool held_ = true;
};

// For a function that others call back under the lock (a std::function, what a list calls with each element), where
// clang cannot know it.
inline void assume_engine_lock() GPURUN_ASSERTS(engine_lock) {}

} // namespace gpurun::comm
