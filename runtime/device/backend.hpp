// An implementation of the device contract, as open.cpp knows it: each folder of device/ defines one kBackend. Which
// ones there are, and in what order `auto` tries them, is said in meson.build.
#pragma once

#include "device/device.hpp"
#include "device/options.hpp"

#include <memory>
#include <string_view>

namespace gpurun::device {

struct Backend {
    const char* name;      // GPURUN_DEVICE is NAME:WHICH
    const char* selectors; // all forms of that, for people
    bool (*present)();     // whether it has a device that `auto` may take. Prints nothing where there is none
    // `which` is what follows NAME:, or empty for the first device that there is. Leaves the device current for the
    // calling thread. kDevice, naming the device, if it is not there; kSetting if an option cannot be used.
    base::Result<std::unique_ptr<Device>> (*open)(const Options& options, std::string_view which);
};

} // namespace gpurun::device
