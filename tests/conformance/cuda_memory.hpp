// Memory that the device contract describes but does not allocate, as a program gets it from CUDA: managed memory, and
// memory of a second GPU. cuda_memory.cpp, cuda_memory_none.cpp.
#pragma once

#include <cstddef>

namespace gpurun::conformance {

bool has_managed_memory(); // of the subject
void* allocate_managed(size_t bytes);
void free_managed(void* memory);

bool has_elsewhere();
void* allocate_elsewhere(size_t bytes);
void free_elsewhere(void* memory);
// Whether the subject's device has access to it all the same: importing from another process may have given it.
bool reaches(void* memory);

} // namespace gpurun::conformance
