// What --topo prints. Pure functions.
#pragma once

#include "machine_facts.hpp"

#include <string>

namespace gpurun::launcher {

std::string machine_as_text(const MachineFacts& facts);

// An object; what is not known is null.
std::string machine_as_json(const MachineFacts& facts);

} // namespace gpurun::launcher
