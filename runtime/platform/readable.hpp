// Whether this process can read an address, without the fault that reading would be.
#pragma once

namespace gpurun::platform {

// A few system calls: for telling what is wrong, not for the message path. True if the system will not say.
bool readable(const void* address);

} // namespace gpurun::platform
