// Ranges of calls for tools that read NVTX (Nsight Systems): domain "gpurun", a category a kind of call, the bytes of
// the message as payload.
//
// nvtx_ranges.cpp, or no_ranges.cpp where gpurun was built without the header of NVTX. Which, `gpurun --version` says.
#pragma once

#include "base/current_call.hpp"

namespace gpurun::api {

// Whether a tool is there to see them. The first call looks for one.
bool has_range_reader();
// REQUIRES has_range_reader().
void begin_range(const char* name, const base::CallArguments& arguments);
// Of the calling thread's last one.
void end_range();

} // namespace gpurun::api
