// What the kernels of kernels.cu are given: read by both compilers, host and device.
#pragma once

#include <cstdint>

namespace gpurun::device::cuda {

// Threads of a block; a kernel of several blocks says that it is done when the last of them is.
constexpr unsigned kMailThreads = 512;
constexpr unsigned kCopyThreads = 512;

struct PutMailArguments {
    const unsigned char* source;
    void* words;
    uint64_t bytes;
    uint64_t* sent;
    uint64_t value;
    uint32_t* ticket;
    uint32_t mark;
};

struct TakeMailArguments {
    unsigned char* destination;
    const void* words;
    uint64_t bytes;
    const uint64_t* sent;
    uint64_t* taken;
    uint64_t value;
    uint32_t* ticket;
    uint32_t mark;
    uint32_t seen; // 1: whoever sees `taken` sees the destination too
};

struct WatchCounterArguments {
    const uint64_t* counter;
    uint64_t value;
};

struct FencedCopyArguments {
    void* destination;
    const void* source;
    uint64_t bytes;
    const uint64_t* before; // or null
    uint64_t* after;
    uint64_t value;
    uint32_t* ticket;
    uint64_t* gate; // device memory: reads `value` once the first block has seen `before`
};

} // namespace gpurun::device::cuda
