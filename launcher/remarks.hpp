// Remarks below the hang table: messages that nearly match, ranks that are missing in a collective, and ranks that
// all others wait for in the end. Pure functions.
#pragma once

#include "wait_reports.hpp"

#include <string>
#include <vector>

namespace gpurun::launcher {

// A sentence each, the most helpful first. Only about waits that two reports have in common.
std::vector<std::string> find_remarks(const WaitReports& ranks);

} // namespace gpurun::launcher
