// Which device a rank opens (open.hpp), and what emulated ones are like.
#pragma once

#include "device/types.hpp"

#include <cstdint>
#include <string>

namespace gpurun::device {

// `selector` is GPURUN_DEVICE's value: auto, cuda:UUID, cuda:ORDINAL, emulated:ORDINAL/COUNT. auto is one of the CUDA
// devices, or one emulated device where CUDA finds none. kDevice, naming the device, if it is not there.
struct Options {
    std::string selector = "auto";
    uint32_t auto_device = 0;         // which CUDA device auto is, counted in circles
    size_t emulated_memory_bytes = 0; // this process's part
    std::string emulated_peer_access = "all";
    uint64_t emulated_seed = 0;
    int64_t emulated_delay_us = 0;
    std::string emulated_lose;
    // What allocate_ordered() gives: kDevice, or kManaged or kElsewhere as a program may get it from CUDA.
    Placement emulated_ordered = Placement::kDevice;
    std::string emulated_capabilities = "all"; // or none, or a list of names (capabilities.hpp)
};

} // namespace gpurun::device
