// Device memory of no allocator: a variable of a program's kernels.
#include <cuda_runtime_api.h>

#include <cstddef>

namespace allocations {

__device__ unsigned char variable[8u << 20];

void* kernel_variable() {
    void* address = nullptr;
    return cudaGetSymbolAddress(&address, variable) == cudaSuccess ? address : nullptr;
}

} // namespace allocations
