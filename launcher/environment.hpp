// The environment that a rank starts with: gpurun's own, and what tells the runtime who it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpurun::launcher {

struct RankIdentity {
    uint32_t rank = 0;
    uint32_t size = 1;
    int control_fd = -1;
    std::string device; // for GPURUN_DEVICE
};

// `inherited` ends with a null pointer, as environ does.
std::vector<std::string> rank_environment(const char* const* inherited, const RankIdentity& identity);

} // namespace gpurun::launcher
