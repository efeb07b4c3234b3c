// Which CPUs and which memory each rank gets. A pure function of the machine and the ranks' devices.
//
// Each rank gets whole cores near its device, ranks with the same neighbourhood equal shares of it. The cores of
// two ranks are disjoint as long as there are as many cores as ranks, even if some must then be further away.
// core_shares divides the cores; this file decides which are near a device, and turns cores into CPUs.
#pragma once

#include "devices.hpp"
#include "platform/topology.hpp"

#include <optional>
#include <vector>

namespace gpurun::launcher {

struct Binding {
    std::vector<int> cpus;      // empty: not bound
    int node = -1;              // the NUMA node that is near; -1: there is no single one
    std::vector<int> memory;    // NUMA nodes that memory comes from; empty: from wherever it is first touched
    bool strict_memory = false; // never from elsewhere
    size_t threads = 1;         // cores of its own: as many threads are worth starting
};

std::vector<Binding> bind_ranks(const platform::Machine& machine, const std::vector<Device>& devices, BindTo bind_to,
                                std::optional<Membind> membind);

// As --map says. The error names a CPU or a node that is not there, or that two ranks would share.
base::Result<std::vector<Binding>> bind_as_mapped(const platform::Machine& machine, const PlacementOptions& options);

} // namespace gpurun::launcher
