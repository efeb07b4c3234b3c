// How a kernel of ours is launched.
#pragma once

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/launch_sizes.hpp"

namespace gpurun::device::cuda {

// Our kernels wait for what is before them in their stream by themselves (await_predecessors() in kernel_words.cuh),
// and so may be launched earlier, where the device can do that: those that are small.
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
    config.hStream = stream.native;
    config.attrs = &early;
    const bool is_small = uint64_t{grid} * threads <= kMostEarlyThreads / processes_.load(std::memory_order_relaxed);
    config.numAttrs = facts_.early_kernels && is_small ? 1 : 0;
    void* parameters[] = {const_cast<Arguments*>(&arguments)};
    return driver_.check(driver_.cuLaunchKernelEx(&config, kernel, parameters, nullptr), "cuLaunchKernelEx",
                         base::Status::kStream);
}

inline uint64_t* address(CUdeviceptr counter) { return reinterpret_cast<uint64_t*>(counter); }

} // namespace gpurun::device::cuda
