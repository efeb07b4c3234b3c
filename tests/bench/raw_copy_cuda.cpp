// The raw limit on CUDA devices, timed by CUDA events on the copying side.

#include "raw_copy.hpp"

#include "call.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace gpurun::bench {

namespace {

constexpr int kOwner = 0;
constexpr int kCopier = 1;
constexpr int kTag = 7;

void must(cudaError_t result, const char* what) {
    if (result == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
    gpurun_abort(1);
}
#define MUST(call) must((call), #call)

// One direction of bytes on one stream, with a clock around it.
class TimedStream {
  public:
    TimedStream() {
        MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        MUST(cudaEventCreate(&begin_));
        MUST(cudaEventCreate(&end_));
    }
    ~TimedStream() {
        cudaEventDestroy(end_);
        cudaEventDestroy(begin_);
        cudaStreamDestroy(stream_);
    }
    TimedStream(const TimedStream&) = delete;
    TimedStream& operator=(const TimedStream&) = delete;

    // Microseconds of each copy.
    double copy_us(void* destination, const void* source, size_t bytes, int copies) {
        MUST(cudaEventRecord(begin_, stream_));
        for (int i = 0; i < copies; ++i)
            MUST(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream_));
        MUST(cudaEventRecord(end_, stream_));
        MUST(cudaEventSynchronize(end_));
        float ms = 0;
        MUST(cudaEventElapsedTime(&ms, begin_, end_));
        return static_cast<double>(ms) * 1e3 / copies;
    }

  private:
    cudaStream_t stream_ = nullptr;
    cudaEvent_t begin_ = nullptr;
    cudaEvent_t end_ = nullptr;
};

bool staged_is_asked_for() {
    const char* path = std::getenv("GPURUN_PATH");
    return path != nullptr && std::strcmp(path, "staged") == 0;
}

class CudaCopy final : public RawCopy {
  public:
    CudaCopy(int rank, size_t largest) : rank_(rank) {
        MUST(cudaMalloc(&own_, largest));
        MUST(cudaMemset(own_, rank, largest));
        MUST(cudaDeviceSynchronize());
        exchange();
        if (rank == kCopier && !mapped_)
            MUST(cudaMallocHost(&pinned_, largest));
    }
    // Together, as the constructor: the owner frees its memory after the copier has closed the mapping.
    ~CudaCopy() override {
        if (theirs_ != nullptr)
            cudaIpcCloseMemHandle(theirs_);
        cudaFreeHost(pinned_);
        gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST);
        cudaFree(own_);
    }

    std::string how() const override {
        return mapped_ ? "copy engine, pulling through CUDA IPC"
                       : "copy engine, slower of device to pinned and pinned to device";
    }

    double one_us(size_t bytes) override { return window_us(bytes, 1); }

    // Staged copies are pipelined at best: the slower half is the limit.
    double window_us(size_t bytes, int copies) override {
        if (mapped_)
            return stream_.copy_us(own_, theirs_, bytes, copies);
        return std::max(stream_.copy_us(pinned_, own_, bytes, copies), stream_.copy_us(own_, pinned_, bytes, copies));
    }

  private:
    // Leaves both sides knowing whether the copier has the owner's memory mapped.
    void exchange() {
        const gpurun_comm world = GPURUN_COMM_WORLD;
        cudaIpcMemHandle_t handle{};
        uint8_t mapped = 0;
        if (rank_ == kOwner) {
            MUST(cudaIpcGetMemHandle(&handle, own_));
            CALL(gpurun_send(&handle, sizeof(handle), GPURUN_BYTE, kCopier, kTag, world, GPURUN_HOST));
            CALL(gpurun_recv(&mapped, 1, GPURUN_UINT8, kCopier, kTag, world, GPURUN_HOST, nullptr));
        } else {
            CALL(gpurun_recv(&handle, sizeof(handle), GPURUN_BYTE, kOwner, kTag, world, GPURUN_HOST, nullptr));
            mapped = open(handle) ? 1 : 0;
            CALL(gpurun_send(&mapped, 1, GPURUN_UINT8, kOwner, kTag, world, GPURUN_HOST));
        }
        mapped_ = mapped != 0;
    }

    bool open(const cudaIpcMemHandle_t& handle) {
        if (staged_is_asked_for())
            return false;
        if (cudaIpcOpenMemHandle(&theirs_, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess)
            return true;
        (void)cudaGetLastError(); // no peer access
        theirs_ = nullptr;
        return false;
    }

    int rank_;
    bool mapped_ = false;
    void* own_ = nullptr;
    void* theirs_ = nullptr;
    void* pinned_ = nullptr;
    TimedStream stream_;
};

} // namespace

std::unique_ptr<RawCopy> make_cuda_copy(int rank, int ordinal, size_t largest) {
    MUST(cudaSetDevice(ordinal));
    return std::make_unique<CudaCopy>(rank, largest);
}

std::string driver_version() {
    std::string version;
    std::ifstream("/sys/module/nvidia/version") >> version;
    int cuda = 0;
    if (cudaDriverGetVersion(&cuda) != cudaSuccess || cuda == 0)
        return version;
    return version + " (CUDA " + std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10) + ")";
}

} // namespace gpurun::bench
