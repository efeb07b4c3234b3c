// From the options and this machine to the plan of a job: what gpurun does before it starts ranks here, whether they
// are all of the job or those of one node.
#pragma once

#include "job.hpp"
#include "options.hpp"
#include "placement.hpp"

#include <string>
#include <vector>

namespace gpurun::launcher {

// Where the program and its folder are. Both are looked for from where gpurun is.
struct Located {
    ProgramPlan plan;
    int exit_status = 0; // not 0: `reason` says why it cannot be started
    std::string reason;
};
Located locate(const Program& program);

// What there is here. `environment` is gpurun's own.
base::Result<Surroundings> look_around(const Options& options, const char* const* environment);

// How many ranks a host of several would take of which this is one, where nobody has said that.
base::Result<uint32_t> count_slots(const Options& options, const Surroundings& there);

// Of each program only the ranks that are among `count` from `first` on.
void keep_share(std::vector<Program>& programs, uint32_t first, uint32_t count);

base::Result<MpsPlan> mps_for(const Options& options, const Placement& placement);

JobPlan plan_job(const Options& options, Placement placement, MpsPlan mps, std::vector<ProgramPlan> programs,
                 const Surroundings& there);

} // namespace gpurun::launcher
