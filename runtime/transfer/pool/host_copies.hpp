// Copies between host memory that a stream makes, by host functions. Keeps their arguments, and uses them again.
//
// Used under the engine lock, except run(), which a stream's host thread calls.
#pragma once

#include "device/device.hpp"

#include <deque>
#include <mutex>
#include <vector>

namespace gpurun::transfer {

class HostCopies {
  public:
    explicit HostCopies(device::Device& device) : device_(device) {}

    // Enqueues memcpy(destination, source, bytes) in `stream`.
    base::Result<void> enqueue(device::Stream stream, void* destination, const void* source, size_t bytes);

  private:
    struct Copy {
        void* destination;
        const void* source;
        size_t bytes;
        HostCopies* home;
    };
    static void run(void* argument);
    Copy* take();
    void give_back(Copy* copy);

    device::Device& device_;
    std::mutex mutex_;
    std::deque<Copy> all_;
    std::vector<Copy*> idle_; // has room for all, so that run() never allocates
};

} // namespace gpurun::transfer
