// A thread that learns of deaths in the job, whatever this rank's other threads do: also while one of them holds a lock
// and is stuck in a call of the device's.
#pragma once

#include "platform/job_segment.hpp"
#include "platform/quiet_thread.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

namespace gpurun::platform {

class DeathWatch {
  public:
    // Calls `look` at once and after each death, in a thread of its own, until it is destroyed. `job` outlives it.
    static base::Result<std::unique_ptr<DeathWatch>> start(const JobSegment& job, uint32_t self,
                                                           std::function<void()> look);
    DeathWatch(const DeathWatch&) = delete;
    ~DeathWatch();

  private:
    DeathWatch(std::atomic<uint32_t>& bell, std::function<void()> look) : bell_(bell), look_(std::move(look)) {}
    void watch();

    std::atomic<uint32_t>& bell_;
    const std::function<void()> look_;
    std::atomic<bool> stops_{false};
    std::optional<QuietThread> thread_;
};

} // namespace gpurun::platform
