// What --topo prints (as JSON: report_json.hpp). Pure functions.
#pragma once

#include "machine_facts.hpp"

#include <string>

namespace gpurun::launcher {

std::string machine_as_text(const MachineFacts& facts);

} // namespace gpurun::launcher
