// The NUMA node of this process, as the system numbers it.
#pragma once

#include "base/status.hpp"

#include <optional>

namespace gpurun::platform {

// That of all cores on which the calling thread may run; none if they are of several, or if the system knows of none.
base::Result<std::optional<int>> own_numa_node();

} // namespace gpurun::platform
