// What is to happen in the children that this process forks.
//
// Not in those that posix_spawn(), system() and the like start: these are other programs at once.
#pragma once

#include "base/status.hpp"

namespace gpurun::platform {

// `function` runs in each child before fork() returns there. It takes no lock, since a thread that the child lacks may
// hold it.
base::Result<void> call_in_children(void (*function)());

} // namespace gpurun::platform
