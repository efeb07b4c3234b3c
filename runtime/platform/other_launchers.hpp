// What other programs that start ranks tell them in the environment: torchrun, Open MPI, Slurm, PMI.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace gpurun::platform {

inline constexpr const char* kTorchrun = "torchrun";
inline constexpr const char* kSlurm = "Slurm";

struct OtherLauncher {
    const char* name;
    std::string rank;
    std::string size;
};

// The first one whose variables are there, if it has started more than one process.
std::optional<OtherLauncher> other_launcher(const std::function<const char*(const char*)>& lookup);

} // namespace gpurun::platform
