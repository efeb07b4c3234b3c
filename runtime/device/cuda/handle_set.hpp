// What a device has handed out and not taken back: makes a second destroy, or one of a handle that came from
// elsewhere, an answer instead of undefined behaviour. Not on the message path. Any thread.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace gpurun::device::cuda {

class HandleSet {
  public:
    void insert(void* handle) {
        std::lock_guard lock(mutex_);
        handles_.insert(handle);
    }
    std::unordered_set<void*> take_all() {
        std::lock_guard lock(mutex_);
        return std::exchange(handles_, {});
    }
    // False if it was not there.
    bool erase(void* handle) {
        std::lock_guard lock(mutex_);
        return handles_.erase(handle) != 0;
    }

  private:
    std::mutex mutex_;
    std::unordered_set<void*> handles_;
};

} // namespace gpurun::device::cuda
