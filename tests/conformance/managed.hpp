// Managed memory, which the device contract describes but does not allocate: managed_cuda.cpp, managed_none.cpp.
#pragma once

#include <cstddef>

namespace gpurun::conformance {

bool has_managed_memory(); // of the subject
void* allocate_managed(size_t bytes);
void free_managed(void* memory);

} // namespace gpurun::conformance
