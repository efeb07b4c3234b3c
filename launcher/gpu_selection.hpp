// Devices by name, as --gpus, --map-by list: and --map have them: "0", "2-3", "GPU-8a1c", "MIG-...", "0000:1b:00.0".
//
// UUIDs may be shortened as long as they are clear. The name of a GPU in MIG mode stands for all its instances. A
// pure function.
#pragma once

#include "devices.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace gpurun::launcher {

// Indices into `devices`, in the order of the list. `option` is for the error.
base::Result<std::vector<size_t>> select_devices(std::string_view option, std::string_view list,
                                                 const std::vector<Device>& devices);

} // namespace gpurun::launcher
