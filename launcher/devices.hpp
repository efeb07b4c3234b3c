// The devices that a job may use, in the order in which CUDA numbers them. Pure functions.
#pragma once

#include "placement_options.hpp"
#include "platform/gpu_inventory.hpp"

#include <string>
#include <vector>

namespace gpurun::launcher {

struct Device {
    std::string setting;   // for GPURUN_DEVICE
    std::string bus_id;    // "" where it is not a GPU
    std::string uuid;      // likewise
    size_t number = 0;     // as CUDA and --gpus count
    std::string parent;    // UUID of the GPU that this is a MIG instance of, else ""
    int compute_major = 0; // of a GPU's compute capability; 0: unknown
};

struct DeviceList {
    std::vector<Device> devices;
    std::string notice; // what the user should know, or ""
};

// `emulated` is how many emulated devices there are if their number is not asked for. `absence` says why `gpus` is
// empty.
base::Result<DeviceList> list_devices(const DeviceChoice& choice, size_t emulated,
                                      const std::vector<platform::Gpu>& gpus, const std::string& absence);

// "1 GPU", "2 emulated devices"
std::string count_devices(const std::vector<Device>& devices, size_t number);

} // namespace gpurun::launcher
