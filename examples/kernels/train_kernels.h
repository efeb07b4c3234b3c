// What allreduce.c runs on its devices: the gradient of a linear model's error, and a step against it.
#ifndef EXAMPLES_TRAIN_KERNELS_H
#define EXAMPLES_TRAIN_KERNELS_H

#include <gpurun/gpurun.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// A sample is its features, and behind them what the model should say of it.
enum { kFeatures = 16 };

struct train_kernels {
    // The gradient of the mean squared error over the samples. Device memory, all of it.
    void (*gradient)(gpurun_stream stream, double *gradient, const double *weights, const double *samples,
                     size_t count);
    // weights -= rate * gradient
    void (*descend)(gpurun_stream stream, double *weights, const double *gradient, double rate);
};

extern const struct train_kernels host_train_kernels; // train_kernels_host.c
extern const struct train_kernels cuda_train_kernels; // train_kernels.cu

#ifdef __cplusplus
}
#endif

#endif
