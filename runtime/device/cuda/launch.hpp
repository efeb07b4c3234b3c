// How a kernel of ours is launched, and with how much.
#pragma once

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/kernel_arguments.hpp"
#include "device/device.hpp"

#include <algorithm>

namespace gpurun::device::cuda {

// Each waits on the GPU, so that a few of them must leave room for what they wait for.
constexpr uint64_t kMailBytesPerBlock = 8 * kMailThreads;
constexpr unsigned kMostMailBlocks = 16;
constexpr uint64_t kCopyBytesPerBlock = 16 * kCopyThreads;
constexpr unsigned kMostCopyBlocks = 64;

inline unsigned blocks(uint64_t bytes, uint64_t bytes_per_block, unsigned most) {
    return static_cast<unsigned>(std::clamp<uint64_t>((bytes + bytes_per_block - 1) / bytes_per_block, 1, most));
}

inline unsigned mail_blocks(uint64_t bytes) { return blocks(bytes, kMailBytesPerBlock, kMostMailBlocks); }
inline unsigned copy_blocks(uint64_t bytes) { return blocks(bytes, kCopyBytesPerBlock, kMostCopyBlocks); }

inline unsigned mail_threads(uint64_t bytes) {
    const uint64_t needed = (bytes + 7) / 8;
    return static_cast<unsigned>(std::clamp<uint64_t>((needed + 31) / 32 * 32, 32, kMailThreads));
}

// Our kernels wait for what is before them in their stream by themselves (await_predecessors() in kernel_words.cuh),
// and so may be launched earlier, where the device can do that.
template <typename Arguments>
base::Result<void> CudaDevice::launch(CUfunction kernel, unsigned grid, unsigned threads, const Arguments& arguments,
                                      Stream stream) const {
    CUlaunchAttribute early{};
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config{};
    config.gridDimX = grid;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = threads;
    config.hStream = static_cast<CUstream>(stream.native);
    config.attrs = &early;
    config.numAttrs = facts_.early_kernels ? 1 : 0;
    void* parameters[] = {const_cast<Arguments*>(&arguments)};
    return driver_.check(driver_.cuLaunchKernelEx(&config, kernel, parameters, nullptr), "cuLaunchKernelEx",
                         base::Status::kStream);
}

inline uint64_t* address(CUdeviceptr counter) { return reinterpret_cast<uint64_t*>(counter); }

} // namespace gpurun::device::cuda
