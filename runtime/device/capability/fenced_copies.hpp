// Fenced copies: one operation waits for an edge, copies, and signals the next. Needs Counters.
#pragma once

#include "device/capability/clock.hpp"

namespace gpurun::device {

constexpr size_t kCopyBytesOfBlock = 8192;
constexpr uint32_t kMostCopyBlocks = 64;
constexpr uint32_t copy_blocks(size_t bytes) { return blocks_for(bytes, kCopyBytesOfBlock, kMostCopyBlocks); }

// A copy between two edges, in one operation of the stream.
struct FencedCopy {
    void* destination = nullptr; // both of any alignment, as the number of bytes
    const void* source = nullptr;
    size_t bytes = 0;
    Counter* before = nullptr; // the copy starts once it reads `value`; null: at once
    Counter* after = nullptr;  // reads `value` once the copy is done
    uint64_t value = 0;
    uint32_t* ticket = nullptr; // as in Mail
    // With `before`: device memory of this process that reads less than `value`, and `value` afterwards.
    uint64_t* gate = nullptr;
    Times* times = nullptr;            // as in Mail; without `before`, began is left as it is
    uint32_t blocks = kMostCopyBlocks; // at most, of copy_blocks()
};

class FencedCopies {
  public:
    // Enqueue. Both buffers are device, pinned, managed or imported memory. Where it waits, it keeps a part of the
    // device busy, as in Counters::watch_counter().
    virtual base::Result<void> copy_fenced(const FencedCopy& copy, Stream stream) = 0;

  protected:
    ~FencedCopies() = default; // it is a part of a Device
};

} // namespace gpurun::device
