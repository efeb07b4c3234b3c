// What else can be said of ranks that wait: of messages that nearly fit, of who is missing, and of who is waited for in
// the end. Pure functions.
#pragma once

#include "standings.hpp"

#include <string>
#include <vector>

namespace gpurun::launcher {

// A sentence each, the most telling first. Only of waits that were seen twice.
std::vector<std::string> find_remarks(const Standings& ranks);

} // namespace gpurun::launcher
