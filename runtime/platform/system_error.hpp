// The Error of a system call that just failed: what was tried, and what the system said (errno).
#pragma once

#include "base/status.hpp"

#include <string_view>

namespace gpurun::platform {

base::Error system_error(std::string_view what);
base::Error system_error(std::string_view what, int error_number);

} // namespace gpurun::platform
