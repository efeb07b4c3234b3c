// Opens this process's part of emulated device `ordinal` of `count`.
#pragma once

#include "device/device.hpp"
#include "device/options.hpp"

#include <cstdint>
#include <memory>

namespace gpurun::device::emulated {

// kDevice if there is no such device, kSetting if an option cannot be used.
base::Result<std::unique_ptr<Device>> open_emulated(const Options& options, uint32_t ordinal, uint32_t count);

} // namespace gpurun::device::emulated
