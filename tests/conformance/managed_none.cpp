#include "managed.hpp"

namespace gpurun::conformance {

bool has_managed_memory() { return false; }
void* allocate_managed(size_t) { return nullptr; }
void free_managed(void*) {}

} // namespace gpurun::conformance
