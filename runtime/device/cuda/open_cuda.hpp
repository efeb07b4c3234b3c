// Where CUDA begins: whether there is a GPU, and the Device of one.
//
// Neither needs libcuda.so to be installed: the driver is looked up when it is first asked for, so one build runs
// on machines with and without a GPU.
#pragma once

#include "device/device.hpp"
#include "device/options.hpp"

namespace gpurun::device::cuda {

// Whether CUDA finds a device. Prints nothing, and leaves no error behind, where there is no driver.
bool cuda_present();

// REQUIRES options.selector to be auto, cuda:UUID or cuda:ORDINAL. Leaves the device current for the calling
// thread. kDevice, naming the device and what to do, if it is not there.
base::Result<std::unique_ptr<Device>> open_cuda(const Options& options);

} // namespace gpurun::device::cuda
