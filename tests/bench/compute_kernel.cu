// The computation on a GPU: a chain of multiplications in every thread, one block on each multiprocessor, so that
// there is room for other kernels beside it and it is slowed down by those that take it.
#include "compute.hpp"
#include "cuda_call.hpp"

#include <cuda_runtime.h>

namespace gpurun::bench {

namespace {

constexpr int kThreads = 256;

__global__ void multiply(uint64_t amount, float* sink) {
    float value = static_cast<float>(threadIdx.x);
    for (uint64_t i = 0; i < amount; ++i)
        value = value * 0.999f + 0.5f;
    if (value < 0) // never, which the compiler cannot know
        *sink = value;
}

int multiprocessors(int ordinal) {
    int count = 0;
    MUST(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, ordinal));
    return count;
}

} // namespace

void enqueue_kernel(int ordinal, gpurun_stream stream, uint64_t amount) {
    static const int blocks = multiprocessors(ordinal); // a rank has one device
    multiply<<<blocks, kThreads, 0, stream>>>(amount, nullptr);
    MUST(cudaGetLastError());
}

} // namespace gpurun::bench
