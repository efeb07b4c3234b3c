// What --topo, --report-bindings and --dry-run print with --json. Pure functions.
//
// The only part of gpurun that sees the library for JSON, whose header takes longer to compile than most files.
#pragma once

#include "machine_facts.hpp"
#include "placement.hpp"

#include <string>

namespace gpurun::launcher {

// --topo: an object; what is not known is null.
std::string machine_as_json(const MachineFacts& facts);

// --report-bindings and --dry-run: an array with an object for each rank. What there is not is null.
std::string bindings_as_json(const Placement& placement, const platform::Machine& machine);

} // namespace gpurun::launcher
