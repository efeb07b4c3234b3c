// With how many blocks and threads kernels of ours are launched.
#pragma once

#include "device/cuda/kernel_arguments.hpp"

#include <algorithm>
#include <cstdint>

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

} // namespace gpurun::device::cuda
