// What --report-bindings and --dry-run print (as JSON: report_json.hpp). Pure functions.
#pragma once

#include "placement.hpp"

#include <string>

namespace gpurun::launcher {

// A line for each rank, of which the first one has the number `first_rank`, and below what one should know of them.
std::string bindings_as_table(const Options& options, const Placement& placement, const platform::Machine& machine,
                              uint32_t first_rank = 0);

// Whether it is to be said when the job starts that there are too few cores. Not of emulated devices, whose speed does
// not matter; with --oversubscribe the user accepts it.
bool says_core_notice(const Options& options, const Placement& placement);

} // namespace gpurun::launcher
