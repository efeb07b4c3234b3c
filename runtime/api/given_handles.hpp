// The handles that the program was given and has not destroyed: the only ones that it may destroy.
//
// CUDA gives the address of what was destroyed to the next stream or event, which may be one of the runtime's own. So a
// handle that comes back is looked up here, and never among ours. Any thread.
#pragma once

#include "device/device.hpp"

#include <mutex>
#include <unordered_set>

namespace gpurun::api {

template <typename Handle>
class GivenHandles {
  public:
    void insert(Handle handle) {
        const std::lock_guard lock(mutex_);
        handles_.insert(handle.address());
    }
    bool contains(Handle handle) {
        const std::lock_guard lock(mutex_);
        return handles_.count(handle.address()) != 0;
    }
    // Before it is destroyed: afterwards another may have its address. False if it was not there.
    bool erase(Handle handle) {
        const std::lock_guard lock(mutex_);
        return handles_.erase(handle.address()) != 0;
    }

  private:
    std::mutex mutex_;
    std::unordered_set<const void*> handles_;
};

} // namespace gpurun::api
