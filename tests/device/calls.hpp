// For ranks above CUDA: a call of gpurun, or of CUDA's runtime, that fails says so, and ends the job.
#pragma once

#include <gpurun/gpurun.h>

#include <cuda_runtime.h>

#include <cstdio>

[[noreturn]] inline void fail(const char* what, const char* why) {
    std::printf("%s: %s\n", what, why);
    std::fflush(stdout);
    gpurun_abort(1);
}

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != GPURUN_OK)                                                                                       \
            fail(#call, gpurun_error_detail());                                                                        \
    } while (false)
#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        if (const cudaError_t result = (call); result != cudaSuccess)                                                  \
            fail(#call, cudaGetErrorString(result));                                                                   \
    } while (false)
