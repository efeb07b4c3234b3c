// Opens the rank's device. The one place that knows which implementations there are is open.cpp.
#pragma once

#include "device/device.hpp"
#include "device/options.hpp"

#include <memory>

namespace gpurun::device {

base::Result<std::unique_ptr<Device>> open_device(const Options& options);

} // namespace gpurun::device
