// Which cores and which memory each rank gets. A pure function of the machine and the ranks' devices.
//
// Each rank gets whole cores near its device, ranks with the same neighbourhood equal shares of it. The cores of
// two ranks are disjoint as long as there are as many cores as ranks, even if some must then be further away.
#pragma once

#include "devices.hpp"
#include "options.hpp"
#include "platform/topology.hpp"

#include <vector>

namespace gpurun::launcher {

struct RankPlacement {
    std::vector<int> cpus; // empty: not bound
    int memory_node = -1;  // preferred NUMA node; -1: none
};

std::vector<RankPlacement> place_ranks(const platform::Machine& machine, const std::vector<RankDevice>& devices,
                                       BindTo bind_to);

} // namespace gpurun::launcher
