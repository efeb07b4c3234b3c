// The environment of ranks on a node: the head's, but for what names a host.
#pragma once

#include <string>
#include <vector>

namespace gpurun::launcher {

// Entries as "NAME=value". What names the host, or a session on it, is from `own`, which ends with a null.
std::vector<std::string> merge_environments(std::vector<std::string> heads, const char* const* own);

} // namespace gpurun::launcher
