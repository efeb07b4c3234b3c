// Watches over a job that gpurun did not start: `gpurun --supervise NAME`, which libgpurun runs in its first rank.
#pragma once

#include <string>

namespace gpurun::launcher {

// Returns at once in the process that was started, and goes on in the background until the last rank has left.
int supervise(const std::string& job);

} // namespace gpurun::launcher
