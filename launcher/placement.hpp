// The plan of a job: what each rank runs, on which device, on which CPUs, with which environment.
//
// A pure function of the command line and of what is there, so that it can be printed without starting anything and
// tested on machines that nobody has. The parts are elsewhere: devices and gpu_selection say which devices there
// are, mapping which rank gets which, binding and core_shares its CPUs and memory, environment its variables.
#pragma once

#include "binding.hpp"
#include "devices.hpp"
#include "environment.hpp"
#include "options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpurun::launcher {

struct Surroundings {
    std::vector<platform::Gpu> gpus; // that are visible to gpurun, as CUDA numbers them
    std::string absence;             // why there are none
    platform::Machine machine;
    const char* const* environment = nullptr; // gpurun's own
    uint16_t port = 0;                        // for MASTER_PORT
    std::optional<NodeShare> share;           // of the job's ranks, if others run elsewhere: these are placed
};

struct RankPlan {
    size_t program = 0; // an index into Options::programs
    Device device;
    Binding binding;
    bool sees_only_its_own = false; // of the GPUs
    std::vector<Variable> variables;
    uint32_t hardware_queues = 0; // that it asks for; 0: CUDA_DEVICE_MAX_CONNECTIONS has been set to no number
};

struct Placement {
    std::vector<RankPlan> ranks;
    std::string device_notice; // what the user should know, or ""
    std::string core_notice;   // likewise
    bool on_gpus = false;
};

base::Result<Placement> place_job(const Options& options, const Surroundings& there);

} // namespace gpurun::launcher
