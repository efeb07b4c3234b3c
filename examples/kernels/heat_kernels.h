// What heat.c runs on its devices: one Jacobi step.
#ifndef EXAMPLES_HEAT_KERNELS_H
#define EXAMPLES_HEAT_KERNELS_H

#include <gpurun/gpurun.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct heat_kernels {
    // Each inner cell of `next` becomes the mean of the four neighbours in `now`. Both have `rows` rows of `columns`
    // cells; their outermost rows and columns are read and not written. *change rises to the largest change of a
    // cell. Device memory, all of it.
    void (*step)(gpurun_stream stream, float *next, const float *now, size_t rows, size_t columns, float *change);
};

extern const struct heat_kernels host_heat_kernels; // heat_kernels_host.c
extern const struct heat_kernels cuda_heat_kernels; // heat_kernels.cu

#ifdef __cplusplus
}
#endif

#endif
