// Memory of cuMemMap() in pieces that other processes can map, such as PyTorch's expandable segments.
#pragma once

#include <cstddef>
#include <string>

namespace gpurun::bench {

// On the rank's device. Why there is none, or "".
std::string map_memory(size_t bytes, void** data);
void unmap_memory(void* data);

} // namespace gpurun::bench
