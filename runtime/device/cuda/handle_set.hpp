// The handles that a device has given out and that are not destroyed: destroying one twice, or one of another origin,
// is an error instead of undefined behaviour. Not on the message path. Any thread.
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
    bool contains(void* handle) {
        std::lock_guard lock(mutex_);
        return handles_.contains(handle);
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
