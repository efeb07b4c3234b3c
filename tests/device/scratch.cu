#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>
#define C(x)                                                                                                           \
    do {                                                                                                               \
        cudaError_t e = (x);                                                                                           \
        if (e) {                                                                                                       \
            printf("%s: %s\n", #x, cudaGetErrorString(e));                                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
template <int U>
__global__ void k(uint4* to, const uint4* from, uint64_t words) {
    uint64_t stride = uint64_t(gridDim.x) * blockDim.x, i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x;
    for (; i + (U - 1) * stride < words; i += U * stride) {
        uint4 l[U];
#pragma unroll
        for (int j = 0; j < U; j++)
            l[j] = from[i + j * stride];
#pragma unroll
        for (int j = 0; j < U; j++)
            to[i + j * stride] = l[j];
    }
    for (; i < words; i += stride)
        to[i] = from[i];
}
__global__ void empty() {}
double now() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
int main() {
    C(cudaSetDevice(0));
    C(cudaDeviceEnablePeerAccess(1, 0));
    C(cudaSetDevice(1));
    C(cudaDeviceEnablePeerAccess(0, 0));
    char *a, *b;
    size_t N = 1u << 30;
    C(cudaSetDevice(0));
    C(cudaMalloc(&a, N));
    C(cudaSetDevice(1));
    C(cudaMalloc(&b, N));
    C(cudaSetDevice(0));
    cudaStream_t s[8];
    for (auto& x : s)
        C(cudaStreamCreateWithFlags(&x, cudaStreamNonBlocking));
    cudaEvent_t e0, e1;
    C(cudaEventCreate(&e0));
    C(cudaEventCreate(&e1));
    // kernel variants: device time of 20 in a row minus base
    auto run = [&](auto f) {
        f();
        C(cudaStreamSynchronize(s[0]));
        std::vector<float> v;
        for (int r = 0; r < 9; r++) {
            C(cudaEventRecord(e0, s[0]));
            for (int i = 0; i < 20; i++)
                f();
            C(cudaEventRecord(e1, s[0]));
            C(cudaStreamSynchronize(s[0]));
            float ms;
            C(cudaEventElapsedTime(&ms, e0, e1));
            v.push_back(ms * 1000 / 20);
        }
        std::sort(v.begin(), v.end());
        return v[4];
    };
    printf("empty kernel in a row %.2f us\n", run([&] { empty<<<1, 32, 0, s[0]>>>(); }));
    for (size_t sz : {65536u, 262144u, 1048576u, 4194304u, 16777216u}) {
        printf("%8zu: CE pull %.2f | ", sz, run([&] { C(cudaMemcpyAsync(a, b, sz, cudaMemcpyDefault, s[0])); }));
        for (int t : {256, 512, 1024})
            for (int g : {16, 32, 64, 96, 128, 256}) {
                float u4 = run([&] { k<4><<<g, t, 0, s[0]>>>((uint4*)a, (uint4*)b, sz / 16); });
                float u8 = run([&] { k<8><<<g, t, 0, s[0]>>>((uint4*)a, (uint4*)b, sz / 16); });
                printf("%dx%d %.1f/%.1f ", g, t, u4, u8);
            }
        printf("\n        push: ");
        for (int t : {512})
            for (int g : {16, 32, 64, 128}) {
                float u4 = run([&] { k<4><<<g, t, 0, s[0]>>>((uint4*)b, (uint4*)a, sz / 16); });
                printf("%dx%d %.1f ", g, t, u4);
            }
        printf("\n");
    }
    for (int n : {1, 2, 4}) {
        for (int rep = 0; rep < 2; rep++) {
            C(cudaDeviceSynchronize());
            double t = now();
            for (int i = 0; i < 8; i++)
                C(cudaMemcpyAsync(a + size_t(i % 4) * (256u << 20), b + size_t(i % 4) * (256u << 20), 256u << 20,
                                  cudaMemcpyDefault, s[i % n]));
            C(cudaDeviceSynchronize());
            double d = now() - t;
            if (rep)
                printf("8 pulls of 256 MiB on %d streams: %.1f GB/s\n", n, 8 * 268.435456e6 / d / 1e3);
        }
    }
    // same, push
    for (int n : {1, 2, 4}) {
        for (int rep = 0; rep < 2; rep++) {
            C(cudaDeviceSynchronize());
            double t = now();
            for (int i = 0; i < 8; i++)
                C(cudaMemcpyAsync(b + size_t(i % 4) * (256u << 20), a + size_t(i % 4) * (256u << 20), 256u << 20,
                                  cudaMemcpyDefault, s[i % n]));
            C(cudaDeviceSynchronize());
            double d = now() - t;
            if (rep)
                printf("8 pushes of 256 MiB on %d streams: %.1f GB/s\n", n, 8 * 268.435456e6 / d / 1e3);
        }
    }
}
