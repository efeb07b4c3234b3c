#include "managed.hpp"

#include "subject.hpp"

#include <cuda_runtime_api.h>

namespace gpurun::conformance {

// The subject is the first device, whose primary context is the runtime's own.
bool has_managed_memory() {
    int managed = 0;
    return !is_emulated() && cudaDeviceGetAttribute(&managed, cudaDevAttrManagedMemory, 0) == cudaSuccess &&
           managed != 0;
}

void* allocate_managed(size_t bytes) {
    void* memory = nullptr;
    return cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal) == cudaSuccess ? memory : nullptr;
}

void free_managed(void* memory) { (void)cudaFree(memory); }

} // namespace gpurun::conformance
