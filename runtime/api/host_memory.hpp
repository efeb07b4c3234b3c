// Whether the host memory that a call is given is there, and may be written: a wild pointer becomes an error in place
// of a crash. gpurun(7) says what of this a program may rely on.
//
// The runtime's own allocations the device knows exactly, in each call (Device::describe). Nobody tells when the
// program unmaps or protects memory of its own, and to ask the system takes longer than a small message:
//   * a buffer of up to kLookedAtOnce bytes: every page is looked at when a call first uses it, and then remembered;
//     on an emulated device until that pins memory or gives some back, since it can tell, on CUDA for good;
//   * a larger one: in each call, that all of it is mapped; its first and last page, as above.
#pragma once

#include "api/host_pages.hpp"
#include "base/status.hpp"

namespace gpurun::api {

// kBuffer, with what to do, if the memory cannot be used. `version`: HostPages::version(), before the device described
// it.
base::Result<void> check_host_memory(HostPages& pages, const void* buffer, size_t bytes, Access access,
                                     uint64_t version);
base::Error read_only(const void* buffer, size_t bytes);

} // namespace gpurun::api
