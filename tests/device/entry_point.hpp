// The driver's functions, found through the CUDA runtime: nothing here links to libcuda.
#pragma once

#include <cuda_runtime_api.h>

template <typename Function>
cudaError_t find_entry_point(const char* name, Function& function) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    const cudaError_t result = cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableLegacyStream, &found);
#else
    const cudaError_t result = cudaGetDriverEntryPoint(name, &address, cudaEnableLegacyStream, &found);
#endif
    function = reinterpret_cast<Function>(address);
    return result;
}
