// What whoever watches over a rank knows of it without asking it.
#pragma once

#include "assembly.hpp"
#include "wait_reports.hpp"

#include <cstdint>

namespace gpurun::launcher {

struct RankSeen {
    uint32_t index;  // in the Assembly
    uint32_t number; // in the job
    bool live;
    int pid; // of the process that was started
};

RankReport look_at(const Assembly& assembly, const platform::JobSegment& segment, const RankSeen& rank);

// The process that has called gpurun_init() need not be the one that was started.
int pid_of(const Assembly& assembly, const platform::JobSegment& segment, const RankSeen& rank);

} // namespace gpurun::launcher
