// What the kernels of kernels.cu are given: read by both compilers, host and device.
#pragma once

#include <cstdint>

namespace gpurun::device::cuda {

// Threads of a block; a kernel of several blocks says that it is done when the last of them is.
constexpr unsigned kMailThreads = 512;
constexpr unsigned kCopyThreads = 512;

// A large mail crosses in pieces, one a block. Their marks lie in front, each in a line of its own.
constexpr unsigned kMailPieces = 64;
constexpr unsigned kMarkStride = 128;
constexpr unsigned kSmallestPiece = 8192;
constexpr uint64_t piece_bytes(uint64_t bytes) {
    const uint64_t even = ((bytes + kMailPieces - 1) / kMailPieces + 15) / 16 * 16;
    return even < kSmallestPiece ? kSmallestPiece : even;
}

struct PutMailArguments {
    const unsigned char* source;
    void* words;
    uint64_t bytes;
    uint64_t piece; // piece_bytes()
    uint64_t* sent;
    uint64_t value;
    uint32_t* ticket;
    uint32_t mark;
    uint32_t header; // bytes in front of a large mail
};

struct TakeMailArguments {
    unsigned char* destination;
    const void* words;
    uint64_t bytes; // that are taken
    uint64_t piece; // piece_bytes() of the whole mail
    const uint64_t* sent;
    uint64_t* taken;
    uint64_t value;
    uint32_t* ticket;
    uint32_t mark;
    uint32_t header;
    uint32_t seen; // 1: whoever sees `taken` sees the destination too
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
