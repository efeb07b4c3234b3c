// Reduce: streams combine buffers of elements (base/reduction.hpp).
#pragma once

#include "base/reduction.hpp"
#include "base/status.hpp"
#include "device/types.hpp"

namespace gpurun::device {

constexpr uint32_t kMostReducingBlocks = 1024; // of what waits for nobody: enough to keep every processor busy

class Reduce {
  public:
    // Enqueue; may be captured. The buffers are pinned, device, managed or imported memory, of any alignment; the
    // result may be one of the operands, otherwise they do not overlap. REQUIRES what base::reduce() requires.
    virtual base::Result<void> reduce_elements(const base::Reduction& reduction, size_t count, void* result,
                                               std::span<const void* const> operands, Stream stream) = 0;

  protected:
    ~Reduce() = default; // it is a part of a Device
};

} // namespace gpurun::device
