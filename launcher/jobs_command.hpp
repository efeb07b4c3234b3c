// `gpurun jobs`: the jobs of this user on this machine.
#pragma once

#include <string>
#include <vector>

namespace gpurun::launcher {

// `words` are what stands behind "jobs". Returns gpurun's exit status.
int list_jobs(std::vector<std::string> words);

} // namespace gpurun::launcher
