// Jobs as `gpurun jobs` shows them to people: a table each. Pure functions.
#pragma once

#include "job_json.hpp"

#include <span>
#include <string>

namespace gpurun::launcher {

// Ends with a line end.
std::string format_jobs(std::span<const ListedJob> jobs, std::span<const SilentJob> silent);

} // namespace gpurun::launcher
