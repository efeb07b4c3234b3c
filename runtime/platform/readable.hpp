// Whether this process can read or write an address, without the fault that doing so would be.
#pragma once

namespace gpurun::platform {

// A few system calls: for telling what is wrong, not for the message path. True if the system will not say.
bool readable(const void* address);
// Whatever is written there at the same time, by another thread or by a device, stays.
bool writable(const void* address);

} // namespace gpurun::platform
