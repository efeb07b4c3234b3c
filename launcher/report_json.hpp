// What --topo, --report-bindings and --dry-run print with --json. Pure functions.
//
// The only part of gpurun that sees the library for JSON, whose header takes longer to compile than most files.
#pragma once

#include "machine_facts.hpp"
#include "placement.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpurun::launcher {

// --topo: an object; what is not known is null.
std::string machine_as_json(const MachineFacts& facts);

// --report-bindings and --dry-run: an array with an object for each rank, from `first_rank` on. What there is not is
// null.
std::string bindings_as_json(const Placement& placement, const platform::Machine& machine, uint32_t first_rank = 0);

// Of several hosts, by their names: one array of all that theirs have, or of their objects, each with its host. None:
// that of some host is no such text.
std::optional<std::string> join_json(const std::vector<std::pair<std::string, std::string>>& of_hosts);

} // namespace gpurun::launcher
