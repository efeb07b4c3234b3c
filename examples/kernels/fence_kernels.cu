// fence_kernels.h as CUDA kernels. A gpurun_stream is a cudaStream_t.
#include "cuda_check.h"
#include "fence_kernels.h"

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kSlowNs = 5000; // long enough that a send which did not wait would read too early

unsigned blocks_for(size_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

__device__ uint32_t link_of_chain(uint32_t number, size_t index, uint32_t round, uint32_t link) {
    return link == 0 ? round * 2654435761u + static_cast<uint32_t>(index) : number * 1664525u + 1013904223u;
}

__global__ void produce_kernel(uint32_t *numbers, size_t count, uint32_t round, uint32_t link) {
    const size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
    __nanosleep(kSlowNs);
    if (i < count)
        numbers[i] = link_of_chain(numbers[i], i, round, link);
}

__global__ void consume_kernel(const uint32_t *numbers, size_t count, uint32_t round, uint32_t links, uint32_t *wrong) {
    const size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
    if (i >= count)
        return;
    uint32_t expected = 0;
    for (uint32_t link = 0; link < links; link++)
        expected = link_of_chain(expected, i, round, link);
    if (numbers[i] != expected)
        atomicAdd(wrong, 1u);
}

void produce(gpurun_stream stream, uint32_t *numbers, size_t count, uint32_t round, uint32_t link) {
    produce_kernel<<<blocks_for(count), kThreads, 0, stream>>>(numbers, count, round, link);
    check_launch("produce");
}

void consume(gpurun_stream stream, const uint32_t *numbers, size_t count, uint32_t round, uint32_t links,
             uint32_t *wrong) {
    consume_kernel<<<blocks_for(count), kThreads, 0, stream>>>(numbers, count, round, links, wrong);
    check_launch("consume");
}

} // namespace

extern "C" const struct fence_kernels cuda_fence_kernels = {produce, consume};
