// Messages that are started while a kernel fills the GPU arrive before that kernel has ended: theirs go first, if their
// order domain is the host's or an urgent stream.
//
//     gpurun -n 2 full_gpu
//
// The kernel has a hundred times more blocks than the GPU runs at once, each for a millisecond. Exits 77 without a GPU.
#include "calls.hpp"

#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kWaves = 100;
constexpr int kThreads = 256;
constexpr long long kBlockNs = 1'000'000;
constexpr size_t kSizes[] = {8, 65536, 1u << 20, 16u << 20};
constexpr size_t kLargest = 16u << 20;

__device__ long long now_ns() {
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__global__ void fill() {
    const long long until = now_ns() + kBlockNs;
    while (now_ns() < until) {
    }
}

// As many blocks as run at once, times kWaves.
int blocks() {
    int device = 0, processors = 0, of_each = 0;
    CUDA(cudaGetDevice(&device));
    CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_each, fill, kThreads, 0));
    return processors * of_each * kWaves;
}

struct Buffers {
    unsigned char *out, *in;
};

// Both ways, in the order domain `order`, both ends started and then waited for on the host.
void exchange(const Buffers& buffers, size_t bytes, int peer, gpurun_stream order) {
    gpurun_request requests[2];
    OK(gpurun_irecv(buffers.in, bytes, GPURUN_BYTE, peer, 0, GPURUN_COMM_WORLD, order, &requests[0]));
    OK(gpurun_isend(buffers.out, bytes, GPURUN_BYTE, peer, 0, GPURUN_COMM_WORLD, order, &requests[1]));
    OK(gpurun_waitall(2, requests, GPURUN_HOST, nullptr));
}

// False if the kernel was over first.
bool arrives_beside(const Buffers& buffers, size_t bytes, int peer, gpurun_stream order, cudaStream_t compute) {
    OK(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    fill<<<blocks(), kThreads, 0, compute>>>();
    CUDA(cudaGetLastError());
    exchange(buffers, bytes, peer, order);
    const bool computes = cudaStreamQuery(compute) == cudaErrorNotReady;
    CUDA(cudaStreamSynchronize(compute));
    OK(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    return computes;
}

} // namespace

int main() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::puts("skipped: no GPU");
        return 77;
    }
    OK(gpurun_init());
    int rank = 0;
    OK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    Buffers buffers{};
    CUDA(cudaMalloc(&buffers.out, kLargest));
    CUDA(cudaMalloc(&buffers.in, kLargest));
    cudaStream_t compute = nullptr, messages = nullptr;
    CUDA(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    int least_urgent = 0, most_urgent = 0;
    CUDA(cudaDeviceGetStreamPriorityRange(&least_urgent, &most_urgent));
    CUDA(cudaStreamCreateWithPriority(&messages, cudaStreamNonBlocking, most_urgent));
    int late = 0;
    for (const gpurun_stream order : {GPURUN_HOST, gpurun_stream{messages}})
        for (const size_t bytes : kSizes) {
            exchange(buffers, bytes, 1 - rank, order); // opens what the next one uses
            if (!arrives_beside(buffers, bytes, 1 - rank, order, compute)) {
                std::printf("rank %d: %zu bytes in the order of %s came after the kernel had ended\n", rank, bytes,
                            order == GPURUN_HOST ? "the host" : "a stream");
                ++late;
            }
        }
    CUDA(cudaFree(buffers.out));
    CUDA(cudaFree(buffers.in));
    OK(gpurun_finalize());
    return late == 0 ? 0 : 1;
}
