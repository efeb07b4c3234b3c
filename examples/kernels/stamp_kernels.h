// What overlap.c sees its devices' time with: a stream's place, as the time at which its device got there.
#ifndef EXAMPLES_STAMP_KERNELS_H
#define EXAMPLES_STAMP_KERNELS_H

#include <gpurun/gpurun.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stamp_kernels {
    // *ns, which is device memory, becomes the device's clock in nanoseconds. It is the same clock in all streams.
    void (*stamp)(gpurun_stream stream, uint64_t *ns);
};

extern const struct stamp_kernels host_stamp_kernels; // stamp_kernels_host.c
extern const struct stamp_kernels cuda_stamp_kernels; // stamp_kernels.cu

#ifdef __cplusplus
}
#endif

#endif
