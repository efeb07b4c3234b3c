// CLOCK_MONOTONIC: the same on all processes of a machine.
#pragma once

#include <cstdint>

namespace gpurun::platform {

int64_t now_ns();

} // namespace gpurun::platform
