// What the ranks of a job wait for, as text: a table, then what can be said for certain. A pure function.
#pragma once

#include "wait_reports.hpp"

#include <cstdint>
#include <string>

namespace gpurun::launcher {

// How often, within a --hang-timeout, it is looked whether a table is due.
constexpr int64_t kLooksPerTimeout = 4;

// Ends without a line end. `why` the table is printed: "SIGQUIT".
std::string format_hangs(const WaitReports& ranks, int64_t now_ns, const std::string& why);

} // namespace gpurun::launcher
