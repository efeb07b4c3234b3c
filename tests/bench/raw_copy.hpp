// The same bytes moved without the runtime: the limit that its numbers are held against, measured in the same run.
//
// Rank 0 holds the bytes, rank 1 copies them to itself and takes the time. One object in each rank, made by both at
// once (the constructors exchange handles through gpurun). Buffers are the object's own: none is shared with what the
// runtime moves. One thread.
#pragma once

#include "options.hpp"

#include <gpurun/gpurun.h>

#include <memory>
#include <string>

namespace gpurun::bench {

class RawCopy {
  public:
    virtual ~RawCopy() = default;
    RawCopy() = default;
    RawCopy(const RawCopy&) = delete;
    RawCopy& operator=(const RawCopy&) = delete;

    // For the table's head: what is copied how.
    virtual std::string how() const = 0;

    // Rank 1 only. Microseconds of one copy that is started and waited for.
    virtual double one_us(size_t bytes) = 0;
    // Rank 1 only. Microseconds of each of `copies` that are started together.
    virtual double window_us(size_t bytes, int copies) = 0;
};

// One processor copying: what host memory, and emulated devices, can do at best.
std::unique_ptr<RawCopy> make_processor_copy(int rank, size_t largest);

// The copy engine, pulling through CUDA IPC; or through pinned memory where the devices cannot reach each other or
// GPURUN_PATH=staged. Null in a build without CUDA.
std::unique_ptr<RawCopy> make_cuda_copy(int rank, int ordinal, size_t largest);

// The driver's version, for the record; empty where there is none.
std::string driver_version();

} // namespace gpurun::bench
