// Who shares a device, and whether its processes run on it at the same time or by turns.
//
// A GPU gives its processes time slices of about 2 ms unless MPS serves them. A kernel that spins until another rank
// has done something then burns the slice in which that rank could have done it, so nothing may spin there. An
// emulated device has no slices, but is taken for a GPU, so that what is true of one is tested on the other.
//
// REQUIRES: every rank has been ready (platform/job_session.hpp), so that its record says which device it has.
#pragma once

#include "base/settings.hpp"
#include "platform/job_segment.hpp"

namespace gpurun::transfer {

// How many ranks of the job have the same device as `rank`, itself included.
uint32_t ranks_on_device(const platform::JobSegment& job, uint32_t rank);

// Whether `rank` shares its device without MPS.
bool takes_turns(const platform::JobSegment& job, const base::Settings& settings, uint32_t rank);

} // namespace gpurun::transfer
