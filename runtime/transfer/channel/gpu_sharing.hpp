// GPU sharing: which ranks share a device, and whether they run on it at the same time (MPS) or in turns.
//
// Without MPS a GPU gives its processes time slices of about 2 ms. A kernel that spins until another rank has done
// something uses up the slice in which that rank could do it, so no kernel may spin there. Emulated devices have no
// time slices, but are treated like GPUs, so that both are tested.
//
// REQUIRES: every rank has been ready (platform/job_session.hpp), so that its record says which device it has.
#pragma once

#include "device/device.hpp"
#include "platform/job_segment.hpp"

namespace gpurun::transfer {

// A rank's device, as it has published it.
device::Identity device_of(const platform::RankRecord& record);

// Whether two ranks have the same one: what devices are called is unique on a node.
bool share_device(const platform::RankRecord& a, const platform::RankRecord& b);

// How many ranks of the job have the same device as `rank`, itself included.
uint32_t ranks_on_device(const platform::JobSegment& job, uint32_t rank);

// Whether `rank` shares its device without MPS.
bool takes_turns(const platform::JobSegment& job, bool mps, uint32_t rank);

} // namespace gpurun::transfer
