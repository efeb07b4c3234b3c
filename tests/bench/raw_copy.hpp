// The same bytes moved without the runtime: the limit that its numbers are held against, measured in the same run.
//
// Each rank of a pair holds bytes, and copies its partner's to itself. One object in each rank, made by both at once
// (the constructors exchange handles through gpurun). Buffers are the object's own: none is shared with what the
// runtime moves. One thread.
#pragma once

#include "contender.hpp"

#include <memory>
#include <string>

namespace gpurun::bench {

struct Copies {
    size_t bytes = 0; // of each
    int count = 1;
    int slots = 1;         // one after the other, copies are of these
    bool captured = false; // in one graph, where the device has graphs
};

class RawCopy {
  public:
    virtual ~RawCopy() = default;
    RawCopy() = default;
    RawCopy(const RawCopy&) = delete;
    RawCopy& operator=(const RawCopy&) = delete;

    virtual std::string how() const = 0;

    // Microseconds of all, which are started together, and waited for.
    virtual double copy_us(const Copies& copies) = 0;

    // Whether a device copies, or would, so that a host has to start each copy and to wait for it.
    virtual bool by_device() const = 0;
    // Copies so many bytes, and returns when they are there.
    virtual void copy_and_wait(size_t bytes) = 0;
};

// One processor copying out of memory that the partner shares: what host memory, and emulated devices, can do at best.
// `for_device`: in place of one.
std::unique_ptr<RawCopy> make_processor_copy(const Ground& ground, bool for_device);

// The copy engine, pulling through CUDA IPC; or through pinned memory where the devices cannot reach each other, a side
// is host memory, or GPURUN_PATH=staged. Null in a build without CUDA.
std::unique_ptr<RawCopy> make_cuda_copy(const Ground& ground);

} // namespace gpurun::bench
