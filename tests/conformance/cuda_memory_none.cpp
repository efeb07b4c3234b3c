#include "cuda_memory.hpp"

namespace gpurun::conformance {

bool has_managed_memory() { return false; }
void* allocate_managed(size_t) { return nullptr; }
void free_managed(void*) {}

bool has_elsewhere() { return false; }
void* allocate_elsewhere(size_t) { return nullptr; }
void free_elsewhere(void*) {}
bool reaches(void*) { return false; }

} // namespace gpurun::conformance
