// As call.hpp, for the CUDA runtime.
#pragma once

#include <gpurun/gpurun.h>

#include <cuda_runtime_api.h>

#include <cstdio>

namespace gpurun::bench {

inline void must(cudaError_t result, const char* what) {
    if (result == cudaSuccess)
        return;
    std::fprintf(stderr, "gpurun-perf: %s: %s\n", what, cudaGetErrorString(result));
    gpurun_abort(1);
}

} // namespace gpurun::bench

#define MUST(call) ::gpurun::bench::must((call), #call)
