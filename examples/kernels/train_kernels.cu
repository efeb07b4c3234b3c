// train_kernels.h as CUDA kernels. A gpurun_stream is a cudaStream_t.
#include "cuda_check.h"
#include "train_kernels.h"

namespace {

// A thread for each feature: so small a model needs no more.
__global__ void gradient_kernel(double *gradient, const double *weights, const double *samples, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double *sample = samples + i * (kFeatures + 1);
        double error = -sample[kFeatures];
        for (int j = 0; j < kFeatures; j++)
            error += weights[j] * sample[j];
        sum += 2 * error * sample[threadIdx.x] / static_cast<double>(count);
    }
    gradient[threadIdx.x] = sum;
}

__global__ void descend_kernel(double *weights, const double *gradient, double rate) {
    weights[threadIdx.x] -= rate * gradient[threadIdx.x];
}

void gradient(gpurun_stream stream, double *result, const double *weights, const double *samples, size_t count) {
    gradient_kernel<<<1, kFeatures, 0, stream>>>(result, weights, samples, count);
    check_launch("gradient");
}

void descend(gpurun_stream stream, double *weights, const double *against, double rate) {
    descend_kernel<<<1, kFeatures, 0, stream>>>(weights, against, rate);
    check_launch("descend");
}

} // namespace

extern "C" const struct train_kernels cuda_train_kernels = {gradient, descend};
