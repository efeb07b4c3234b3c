// The GPUs of this machine, as NVML tells them. NVML is loaded when asked, so gpurun runs where there is none, and
// CUDA is never called: a process that starts ranks must not have a CUDA context.
#pragma once

#include "base/status.hpp"

#include <string>
#include <vector>

namespace gpurun::platform {

struct Gpu {
    std::string uuid;   // "GPU-...", or "MIG-..." of a MIG instance
    std::string bus_id; // as normal_bus_id() spells it
    std::string name;
    std::string parent;    // of a MIG instance, the UUID of its GPU, which nobody can use as a whole then
    int compute_major = 0; // of CUDA's compute capability; 0: unknown
};

struct GpuInventory {
    std::vector<Gpu> gpus;             // by bus id, which is CUDA's order with CUDA_DEVICE_ORDER=PCI_BUS_ID
    std::string absence;               // why there are none, for people
    std::vector<std::string> unusable; // GPUs that are in MIG mode without instances
};

GpuInventory find_gpus();

// What is left of `gpus` under this value of CUDA_VISIBLE_DEVICES (null: it is unset), in its order. As in CUDA, -1
// ends the list. Naming a GPU that is not there, or one twice, is an error here.
base::Result<std::vector<Gpu>> visible_gpus(const std::vector<Gpu>& gpus, const char* list);

} // namespace gpurun::platform
