// What --report-bindings, --dry-run and --topo print of several hosts.
#pragma once

#include "hosts.hpp"
#include "options.hpp"

#include <string>
#include <utility>
#include <vector>

namespace gpurun::launcher {

// Together, in their order: the name of each host, and what it has said.
std::string join_reports(const std::vector<std::pair<std::string, std::string>>& of_hosts, bool as_json);

// With --topology: each host is taken for a machine like the one that was recorded, and nobody is asked.
base::Result<std::string> report_recorded(const Options& options, const std::vector<Host>& hosts,
                                          const char* const* environment);

} // namespace gpurun::launcher
