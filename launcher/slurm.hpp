// The allocation of Slurm that this process is in, from its environment. Pure functions.
#pragma once

#include "base/status.hpp"
#include "hosts.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

using Lookup = std::function<const char*(const char*)>; // of an environment: nullptr where there is no such variable

// "h[1-3,07-09],gpu-a": each host, in this order.
base::Result<std::vector<std::string>> expand_slurm_hosts(const std::string& text);

// The hosts of the allocation, none outside of one. Where tasks were asked for (--ntasks, --ntasks-per-node) and are
// enough for the `wanted` ranks, each has as many slots as it was given tasks. A step of several tasks is refused: each
// would start a job.
base::Result<std::vector<Host>> slurm_hosts(const Lookup& lookup, std::optional<uint32_t> wanted);

// The command that runs another on one host of the allocation, which is the next word.
std::vector<std::string> slurm_agent();

} // namespace gpurun::launcher
