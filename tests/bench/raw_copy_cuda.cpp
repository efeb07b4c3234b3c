// The raw limit on CUDA devices, timed by CUDA events on the copying side.

#include "raw_copy.hpp"

#include "call.hpp"
#include "cuda_call.hpp"
#include "cuda_captured.hpp"
#include "machine.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace gpurun::bench {

namespace {

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

    double copy_us(void* destination, const void* source, const Copies& copies) {
        const auto enqueue = [&] {
            for (int i = 0; i < copies.count; ++i) {
                const size_t offset = static_cast<size_t>(i % copies.slots) * copies.bytes;
                MUST(cudaMemcpyAsync(static_cast<char*>(destination) + offset,
                                     static_cast<const char*>(source) + offset, copies.bytes, cudaMemcpyDefault,
                                     stream_));
            }
        };
        return copies.captured ? run_us(enqueue) : timed_us(enqueue);
    }

    void copy_and_wait(void* destination, const void* source, size_t bytes) {
        MUST(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream_));
        MUST(cudaStreamSynchronize(stream_));
    }

  private:
    template <typename Function>
    double timed_us(const Function& enqueue) {
        MUST(cudaEventRecord(begin_, stream_));
        enqueue();
        MUST(cudaEventRecord(end_, stream_));
        MUST(cudaEventSynchronize(end_));
        float ms = 0;
        MUST(cudaEventElapsedTime(&ms, begin_, end_));
        return static_cast<double>(ms) * 1e3;
    }

    // The second run of a graph: the first one sets it up.
    template <typename Function>
    double run_us(const Function& enqueue) {
        const CudaCaptured captured(stream_, enqueue);
        captured.launch(stream_);
        return timed_us([&] { captured.launch(stream_); });
    }

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
    explicit CudaCopy(const Ground& ground)
        : pair_(ground.pair), from_device_(on_device(ground.options.memory[ground.pair.leads() ? 1 : 0])),
          to_device_(on_device(ground.options.memory[ground.pair.leads() ? 0 : 1])) {
        MUST(cudaMalloc(&own_, ground.arena_bytes));
        MUST(cudaMalloc(&destination_, ground.arena_bytes));
        MUST(cudaMemset(own_, pair_.rank() + 1, ground.arena_bytes));
        MUST(cudaDeviceSynchronize());
        if (from_device_ && to_device_)
            open_theirs();
        if (theirs_ == nullptr)
            MUST(cudaMallocHost(&pinned_, ground.arena_bytes));
    }
    // Together, as the constructor: memory is freed after the partner has closed its mapping.
    ~CudaCopy() override {
        if (theirs_ != nullptr)
            cudaIpcCloseMemHandle(theirs_);
        pair_.meet();
        cudaFreeHost(pinned_);
        cudaFree(destination_);
        cudaFree(own_);
    }

    std::string how() const override {
        if (theirs_ != nullptr)
            return "copy engine, pulling through CUDA IPC";
        if (from_device_ && to_device_)
            return "copy engine, slower of device to pinned and pinned to device";
        return "copy engine, between a device and pinned memory";
    }

    double copy_us(const Copies& copies) override {
        if (theirs_ != nullptr)
            return stream_.copy_us(destination_, theirs_, copies);
        const double down = from_device_ ? stream_.copy_us(pinned_, own_, copies) : 0;
        const double up = to_device_ ? stream_.copy_us(destination_, pinned_, copies) : 0;
        return std::max(down, up); // staged copies are pipelined at best: the slower half is the limit
    }

    bool by_device() const override { return true; }

    void copy_and_wait(size_t bytes) override {
        if (theirs_ != nullptr)
            return stream_.copy_and_wait(destination_, theirs_, bytes);
        if (from_device_)
            stream_.copy_and_wait(pinned_, own_, bytes);
        if (to_device_)
            stream_.copy_and_wait(destination_, pinned_, bytes);
    }

  private:
    // Maps the partner's memory if both can map each other's.
    void open_theirs() {
        cudaIpcMemHandle_t mine{}, theirs{};
        MUST(cudaIpcGetMemHandle(&mine, own_));
        pair_.exchange(&mine, &theirs, sizeof(mine));
        const bool opened = !staged_is_asked_for() &&
                            cudaIpcOpenMemHandle(&theirs_, theirs, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
        (void)cudaGetLastError(); // no peer access is no failure
        if (pair_.larger(opened ? 0 : 1) > 0) {
            if (opened)
                cudaIpcCloseMemHandle(theirs_);
            theirs_ = nullptr;
        }
    }

    Pair pair_;
    bool from_device_;
    bool to_device_;
    void* own_ = nullptr;
    void* destination_ = nullptr;
    void* theirs_ = nullptr;
    void* pinned_ = nullptr;
    TimedStream stream_;
};

} // namespace

std::unique_ptr<RawCopy> make_cuda_copy(const Ground& ground) {
    MUST(cudaSetDevice(ground.device.ordinal));
    return std::make_unique<CudaCopy>(ground);
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
