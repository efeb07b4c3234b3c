// How a kernel of ours is launched, and with how much.
#pragma once

#include "device/cuda/driver.hpp"
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

template <typename Arguments>
base::Result<void> launch_kernel(const Driver& driver, CUfunction kernel, unsigned grid, unsigned threads,
                                 const Arguments& arguments, Stream stream) {
    void* parameters[] = {const_cast<Arguments*>(&arguments)};
    return driver.check(driver.cuLaunchKernel(kernel, grid, 1, 1, threads, 1, 1, 0,
                                              static_cast<CUstream>(stream.native), parameters, nullptr),
                        "cuLaunchKernel", base::Status::kStream);
}

// The same for a kernel that waits for what is before it in the stream by itself (await_predecessors() in
// channel_kernels.cuh), and so may start earlier.
template <typename Arguments>
base::Result<void> launch_early(const Driver& driver, CUfunction kernel, unsigned grid, unsigned threads,
                                const Arguments& arguments, Stream stream) {
    CUlaunchAttribute early{};
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config{};
    config.gridDimX = grid;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = threads;
    config.hStream = static_cast<CUstream>(stream.native);
    config.attrs = &early;
    config.numAttrs = 1;
    void* parameters[] = {const_cast<Arguments*>(&arguments)};
    return driver.check(driver.cuLaunchKernelEx(&config, kernel, parameters, nullptr), "cuLaunchKernelEx",
                        base::Status::kStream);
}

inline uint64_t* address(CUdeviceptr counter) { return reinterpret_cast<uint64_t*>(counter); }

} // namespace gpurun::device::cuda
