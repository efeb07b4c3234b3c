// Which GPU a rank uses: GPURUN_DEVICE's value to one of the devices that CUDA shows this process.
//
// GPUs are named by UUID wherever two processes talk of them: ordinals depend on CUDA_VISIBLE_DEVICES.
#pragma once

#include "device/cuda/driver.hpp"
#include "device/cuda/uuid.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace gpurun::device::cuda {

base::Result<Uuid> device_uuid(const Driver& driver, CUdevice device);
base::Result<std::optional<CUdevice>> find_device(const Driver& driver, const Uuid& uuid);

// `selector` is cuda:UUID, cuda:ORDINAL or auto, the device that comes `auto_device` after the first in a circle of
// all. kDevice, saying what is there instead, if CUDA does not show it.
base::Result<CUdevice> select_device(const Driver& driver, const std::string& selector, uint32_t auto_device);

} // namespace gpurun::device::cuda
