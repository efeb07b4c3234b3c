// What --topo prints: the machine as gpurun sees it.
#pragma once

#include "options.hpp"

#include <string>

namespace gpurun::launcher {

base::Result<std::string> describe_machine(const Options& options);

} // namespace gpurun::launcher
