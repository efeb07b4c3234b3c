// Opens the rank's device. Which implementations there are is said in meson.build (backend.hpp).
#pragma once

#include "device/device.hpp"
#include "device/options.hpp"

#include <memory>

namespace gpurun::device {

base::Result<std::unique_ptr<Device>> open_device(const Options& options);

} // namespace gpurun::device
