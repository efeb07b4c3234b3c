// What this host calls itself.
#pragma once

#include <string>

namespace gpurun::platform {

std::string host_name(); // "" if it has no name

} // namespace gpurun::platform
