// Touches the pages of memory that is written from its front to its back, a little before they are written.
//
// Touching a new page of shared memory takes a microsecond or two, as long as a small message. So a thread of its own
// does it, kStepBytes at a time, one step ahead of the writer, who pays one wake-up a step. A page that is not there in
// time is faulted in by the writer, as without this; so are all where the system cannot do it (before Linux 5.14).
#pragma once

#include "base/status.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <pthread.h>

namespace gpurun::platform {

class PagesAhead {
  public:
    static constexpr size_t kStepBytes = size_t{256} << 10;

    // The first step is there on return. [memory, memory + bytes) is whole pages, and outlives it.
    static base::Result<std::unique_ptr<PagesAhead>> start(std::byte* memory, size_t bytes);
    ~PagesAhead();
    PagesAhead(const PagesAhead&) = delete;
    PagesAhead& operator=(const PagesAhead&) = delete;

    // The writer is about to write up to `bytes`. Calls of several threads may come in any order.
    void wanted(size_t bytes);

  private:
    PagesAhead(std::byte* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

    static void* run(void* self);
    // False if nothing more is to be done.
    bool bring_up_to(size_t bytes);

    std::byte* const memory_;
    const size_t bytes_;
    size_t there_ = 0; // of the thread, once it runs
    // How many steps are wanted, or kStop: what it says is all that it publishes.
    std::atomic<uint32_t> steps_{1};
    pthread_t thread_{};
    bool running_ = false;
};

} // namespace gpurun::platform
