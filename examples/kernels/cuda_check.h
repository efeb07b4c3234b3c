// Whether a kernel could be launched: an example that cannot says why, and ends its whole job.
#pragma once

#include <gpurun/gpurun.h>

#include <cstdio>

inline void check_launch(const char *kernel) {
    if (cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
        std::fprintf(stderr, "kernel %s: %s\n", kernel, cudaGetErrorString(error));
        gpurun_abort(1);
    }
}
