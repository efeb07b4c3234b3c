// What gpurun sees of a machine: this one, or one that hwloc has recorded.
#pragma once

#include "options.hpp"
#include "platform/gpu_inventory.hpp"
#include "platform/topology.hpp"

#include <string>
#include <vector>

namespace gpurun::launcher {

struct MachineView {
    std::vector<platform::Gpu> gpus;   // that CUDA_VISIBLE_DEVICES leaves, in its order
    std::string absence;               // why there are none
    std::vector<std::string> unusable; // UUIDs of GPUs in MIG mode without instances
    platform::Machine machine;
};

base::Result<MachineView> view_machine(const Options& options);

// Where a GPU is. Nothing known: no CPUs.
struct GpuPlace {
    std::vector<int> cpus;
    std::vector<int> nodes;
};
GpuPlace place_of(const platform::Gpu& gpu, const platform::Machine& machine);

std::vector<int> cpus_of_node(const platform::Machine& machine, int node);

} // namespace gpurun::launcher
