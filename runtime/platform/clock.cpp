#include "platform/clock.hpp"

#include <time.h>

namespace gpurun::platform {

int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

} // namespace gpurun::platform
