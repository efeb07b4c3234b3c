// How the GPUs of this machine reach each other, as NVML tells it.
#pragma once

#include "platform/gpu_inventory.hpp"

#include <string>
#include <vector>

namespace gpurun::platform {

struct GpuLink {
    unsigned nvlinks = 0;     // direct ones, or by a switch
    bool peer_access = false; // each reads the other's memory
    std::string reason;       // why not
};

// links[i][j] is between gpus[i] and gpus[j]; of i == j it says nothing. Empty if there is no driver.
std::vector<std::vector<GpuLink>> find_links(const std::vector<Gpu>& gpus);

} // namespace gpurun::platform
