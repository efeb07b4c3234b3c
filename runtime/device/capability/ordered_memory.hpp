// Ordered memory: device memory that is allocated and freed in the order of a stream, without waiting.
#pragma once

#include "base/status.hpp"
#include "device/types.hpp"

namespace gpurun::device {

class OrderedMemory {
  public:
    virtual base::Result<void*> allocate_ordered(size_t bytes, Stream stream) = 0; // never exportable
    virtual base::Result<void> free_ordered(void* pointer, Stream stream) = 0;

  protected:
    ~OrderedMemory() = default; // it is a part of a Device
};

} // namespace gpurun::device
