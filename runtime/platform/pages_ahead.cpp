#include "platform/pages_ahead.hpp"

#include "platform/quiet_thread.hpp"
#include "platform/wake.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // C libraries before Linux 5.14
#endif

namespace gpurun::platform {

using base::Result;

namespace {
constexpr uint32_t kStop = UINT32_MAX;
}

Result<std::unique_ptr<PagesAhead>> PagesAhead::start(std::byte* memory, size_t bytes) {
    std::unique_ptr<PagesAhead> ahead(new PagesAhead(memory, bytes));
    if (!ahead->bring_up_to(kStepBytes))
        return ahead;
    GPURUN_ASSIGN(ahead->thread_, start_quiet_thread(run, ahead.get(), "the thread that makes room for the trace"));
    ahead->running_ = true;
    return ahead;
}

PagesAhead::~PagesAhead() {
    if (!running_)
        return;
    steps_.store(kStop, std::memory_order_relaxed);
    wake_all(steps_);
    ::pthread_join(thread_, nullptr);
}

void PagesAhead::wanted(size_t bytes) {
    if (!running_)
        return;
    const size_t steps = (std::min(bytes, bytes_) + kStepBytes - 1) / kStepBytes;
    steps_.store(static_cast<uint32_t>(steps), std::memory_order_relaxed);
    wake_all(steps_);
}

bool PagesAhead::bring_up_to(size_t bytes) {
    bytes = std::min(bytes, bytes_);
    if (bytes <= there_)
        return true;
    while (::madvise(memory_ + there_, bytes - there_, MADV_POPULATE_WRITE) != 0)
        if (errno != EINTR && errno != EAGAIN)
            return false;
    there_ = bytes;
    return there_ < bytes_;
}

void* PagesAhead::run(void* argument) {
    auto& self = *static_cast<PagesAhead*>(argument);
    uint32_t steps = self.steps_.load(std::memory_order_relaxed);
    while (steps != kStop && self.bring_up_to(size_t{steps} * kStepBytes)) {
        sleep_while(self.steps_, steps, kForever);
        steps = self.steps_.load(std::memory_order_relaxed);
    }
    return nullptr;
}

} // namespace gpurun::platform
