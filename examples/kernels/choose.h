// An example's kernels come as a table of functions that enqueue work in a stream. There are two of each: CUDA
// kernels, and host loops for emulated devices, whose memory the CPU can reach. CHOOSE_KERNELS takes the one for
// this rank's device, so that one executable runs on both.
#ifndef EXAMPLES_KERNELS_CHOOSE_H
#define EXAMPLES_KERNELS_CHOOSE_H

#include "../check.h"

static inline int on_emulated_device(void) {
    gpurun_device_info info = {.size = sizeof info};
    CHECK(gpurun_device(&info));
    return info.kind == GPURUN_DEVICE_EMULATED;
}

#ifdef EXAMPLES_WITH_CUDA // by examples/meson.build: the CUDA tables are compiled
#define CHOOSE_KERNELS(name) (on_emulated_device() ? &host_##name : &cuda_##name)
#else
#define CHOOSE_KERNELS(name) (on_emulated_device() ? &host_##name : NULL)
#endif

#endif
