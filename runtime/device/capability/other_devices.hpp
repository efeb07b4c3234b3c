// Other devices: streams reach memory of devices of this process that are not the rank's (Placement::kElsewhere).
#pragma once

#include "base/status.hpp"
#include "device/types.hpp"

namespace gpurun::device {

class OtherDevices {
  public:
    // Enqueue. One of the two is kElsewhere, the other pinned.
    virtual base::Result<void> copy_elsewhere(void* destination, const void* source, size_t bytes, Stream stream) = 0;
    virtual base::Result<void> fill_elsewhere(void* destination, int value, size_t bytes, Stream stream) = 0;

  protected:
    ~OtherDevices() = default; // it is a part of a Device
};

} // namespace gpurun::device
