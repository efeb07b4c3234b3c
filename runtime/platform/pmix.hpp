// PMIx, by libpmix.so.2, which is loaded only where a process asks.
#pragma once

#include "base/status.hpp"

#include <cstdint>

namespace gpurun::platform {

struct PmixJob {
    uint32_t size = 0;
    uint32_t local_size = 0; // of its ranks, how many are on this node
};

// Asks the PMIx server that has started this process. The process is its client meanwhile only, unless an MPI library
// has made it one for longer. kLauncher or kUnsupported if it cannot be asked.
base::Result<PmixJob> ask_pmix();

} // namespace gpurun::platform
