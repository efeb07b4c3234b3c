#include "cuda_memory.hpp"

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

bool has_elsewhere() {
    int count = 0;
    return !is_emulated() && cudaGetDeviceCount(&count) == cudaSuccess && count > 1;
}

void* allocate_elsewhere(size_t bytes) {
    void* memory = nullptr;
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    const cudaError_t allocated = cudaMalloc(&memory, bytes);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    REQUIRE(allocated == cudaSuccess);
    return memory;
}

void free_elsewhere(void* memory) { (void)cudaFree(memory); }

bool reaches(void* memory) {
    cudaPointerAttributes attributes{};
    return cudaPointerGetAttributes(&attributes, memory) == cudaSuccess && attributes.devicePointer != nullptr;
}

} // namespace gpurun::conformance
