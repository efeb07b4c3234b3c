// The driver's functions, found through the CUDA runtime: nothing here links to libcuda.
#pragma once

#include <cuda_runtime_api.h>

template <typename Function>
cudaError_t find_entry_point(const char* name, Function& function, unsigned version = 12000) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    const cudaError_t result =
        cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableLegacyStream, &found);
#else
    (void)version;
    const cudaError_t result = cudaGetDriverEntryPoint(name, &address, cudaEnableLegacyStream, &found);
#endif
    function = reinterpret_cast<Function>(address);
    return result;
}
