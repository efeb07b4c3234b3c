// The environment that a rank starts with: gpurun's own, and what tells the runtime who it is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpurun::launcher {

struct Variable {
    std::string name;
    std::string value;
};

struct RankIdentity {
    uint32_t rank = 0;
    uint32_t size = 1;
    int control_fd = -1;
    std::string device; // for GPURUN_DEVICE
    bool mps = false;   // an MPS daemon serves the ranks' GPUs
    std::string job;    // its name
};

// `inherited`, which ends with a null pointer as environ does, with `own` in place of what had the same names.
std::vector<std::string> environment_with(const char* const* inherited, std::span<const Variable> own);

// `more` is set as well.
std::vector<std::string> rank_environment(const char* const* inherited, const RankIdentity& identity,
                                          std::span<const Variable> more = {});

} // namespace gpurun::launcher
