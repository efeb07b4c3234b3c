// What --report-bindings and --dry-run print. Pure functions.
#pragma once

#include "placement.hpp"

#include <string>

namespace gpurun::launcher {

// A line for each rank, and below what one should know of them.
std::string bindings_as_table(const Options& options, const Placement& placement, const platform::Machine& machine);

// An array with an object for each rank. What there is not is null.
std::string bindings_as_json(const Placement& placement, const platform::Machine& machine);

} // namespace gpurun::launcher
