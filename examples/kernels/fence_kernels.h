// What fence.c runs on its devices: a chain of slow links that makes a round's numbers, and the check of them.
#ifndef EXAMPLES_FENCE_KERNELS_H
#define EXAMPLES_FENCE_KERNELS_H

#include <gpurun/gpurun.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fence_kernels {
    // Link 0 starts the numbers of `round`; each later link continues from what the one before it left.
    void (*produce)(gpurun_stream stream, uint32_t *numbers, size_t count, uint32_t round, uint32_t link);
    // Adds to *wrong how many numbers are not what a chain of `links` makes of `round`. Device memory, all of it.
    void (*consume)(gpurun_stream stream, const uint32_t *numbers, size_t count, uint32_t round, uint32_t links,
                    uint32_t *wrong);
};

extern const struct fence_kernels host_fence_kernels; // fence_kernels_host.c
extern const struct fence_kernels cuda_fence_kernels; // fence_kernels.cu

#ifdef __cplusplus
}
#endif

#endif
