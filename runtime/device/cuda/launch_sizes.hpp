// With how many threads kernels of ours are launched. How many blocks they have: mail_blocks(), copy_blocks().
#pragma once

#include "device/capability/fenced_copies.hpp"
#include "device/capability/mails.hpp"
#include "device/cuda/kernel_arguments.hpp"

#include <algorithm>
#include <cstdint>

namespace gpurun::device::cuda {

static_assert(kMailBytesOfBlock == 8 * kMailThreads && kCopyBytesOfBlock == 16 * kCopyThreads);

// Not fewer: CUDA gives a processor more shared memory for smaller blocks, and does not start them on one where blocks
// of 512 threads run (seen: one of 32 waits, one of 128 does not).
constexpr uint64_t kFewestThreads = 128;

// Of a kernel that is launched early, divided by the number of processes that use the device: a quarter of a GPU with
// 132 processors. A larger one starts once those before it have ended: early, it would keep the room of others.
constexpr uint64_t kMostEarlyThreads = uint64_t{64} << 10;

inline unsigned mail_threads(uint64_t bytes) {
    const uint64_t needed = (bytes + 7) / 8;
    return static_cast<unsigned>(std::clamp<uint64_t>((needed + 31) / 32 * 32, kFewestThreads, kMailThreads));
}

} // namespace gpurun::device::cuda
