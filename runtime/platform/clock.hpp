// The time, for programs and for people.
#pragma once

#include <cstdint>
#include <string>

namespace gpurun::platform {

// CLOCK_MONOTONIC: the same on all processes of a machine.
int64_t now_ns();
// By the clock on the wall, to the millisecond: "2026-11-21T10:20:31.123".
std::string local_time();

} // namespace gpurun::platform
