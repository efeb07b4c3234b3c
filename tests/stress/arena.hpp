// Room for the buffers of one epoch in one kind of memory; grows when an epoch needs more.
#pragma once

#include "support/job.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gpurun::stress {

constexpr uint8_t kEmpty = 0x5a; // what a buffer holds before anything is received
constexpr size_t kGuard = 16;    // bytes behind a receive\'s room that must stay as they are

class Arena {
  public:
    static constexpr size_t kAligned = 16; // as kernels like it best

    explicit Arena(test::Kind kind) : kind_(kind) {}

    size_t reserve(size_t bytes, bool aligned = false) {
        const size_t offset = aligned ? (used_ + kAligned - 1) / kAligned * kAligned : used_;
        used_ = offset + bytes + 1 + bytes % 61; // of no alignment
        return offset;
    }
    void settle() { // before the first at() of an epoch
        if (used_ != 0 && (memory_ == nullptr || memory_->size() < used_)) {
            memory_.reset();
            memory_ = std::make_unique<test::Memory>(kind_, 2 * used_);
        }
        used_ = 0;
    }
    uint8_t* at(size_t offset) const { return memory_->at(offset); }

  private:
    test::Kind kind_;
    size_t used_ = 0;
    std::unique_ptr<test::Memory> memory_;
};

} // namespace gpurun::stress
