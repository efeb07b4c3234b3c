// The machine as placement needs it: cores, NUMA nodes, and which of them are near a PCI device.
//
// Plain numbers, read from hwloc once; nothing of hwloc is kept. Only what this process may use is in it.
#pragma once

#include "base/status.hpp"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpurun::platform {

struct Core {
    std::vector<int> cpus; // hardware threads, as Linux numbers them
    int node = -1;         // NUMA node, as Linux numbers it
};

// An NVIDIA GPU as PCI shows it.
struct PciGpu {
    std::string bus_id;
    std::string uuid; // these two: "" unless a recorded machine tells them
    std::string name;
};

// What of PCI Express lies between two GPUs; the shortest comes first.
enum class PciPath { kSwitch, kHostBridge, kNode, kSystem };

// Between two GPUs, by their bus ids; the first is the smaller.
using GpuPair = std::pair<std::string, std::string>;

struct Machine {
    std::vector<Core> cores;    // neighbours share caches
    std::set<int> memory_nodes; // NUMA nodes whose memory this process may use
    std::vector<PciGpu> gpus;   // by bus id
    std::map<GpuPair, PciPath> paths;
    std::set<GpuPair> nvlinks; // known only of a recorded machine
    // PCI devices that compute (display and accelerator classes): bus id as in "0000:1b:00.0", to the indices of
    // the nearest cores. Empty: nothing is known.
    std::map<std::string, std::vector<size_t>> near;

    size_t cpus() const;
};

// The machine we are on; PCI devices are looked for only if asked, as that takes a while.
base::Result<Machine> discover_machine(bool with_pci);
// A machine recorded with lstopo, or described in hwloc's synthetic form.
base::Result<Machine> read_machine(const std::string& xml_path);
base::Result<Machine> synthetic_machine(const std::string& description);

// "0000:1b:00.0" from any common spelling, for example NVML's "00000000:1B:00.0" or "1b:00.0"; "" if it is none.
std::string normal_bus_id(const std::string& text);

} // namespace gpurun::platform
