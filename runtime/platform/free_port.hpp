// A TCP port of this machine that nobody uses now.
#pragma once

#include <cstdint>

namespace gpurun::platform {

// 0 if there is none. It is not kept: whoever is told it should open it soon.
uint16_t free_port();

} // namespace gpurun::platform
