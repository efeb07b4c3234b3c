// Which device each rank gets. A pure function: what is asked for and what is there, to a list.
#pragma once

#include "options.hpp"
#include "platform/gpu_inventory.hpp"

#include <string>
#include <vector>

namespace gpurun::launcher {

struct RankDevice {
    std::string setting; // for GPURUN_DEVICE
    std::string bus_id;  // "" where it is not a GPU
    std::string uuid;    // likewise
};

struct DevicePlan {
    std::vector<RankDevice> ranks;
    std::string notice; // what the user should know, or ""
};

// `absence` says why `gpus` is empty. The error names the numbers and the remedy.
base::Result<DevicePlan> plan_devices(const Options& options, const std::vector<platform::Gpu>& gpus,
                                      const std::string& absence);

} // namespace gpurun::launcher
