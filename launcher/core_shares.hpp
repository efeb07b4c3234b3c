// Divides the cores of a machine among ranks, each of which prefers some of them. A pure function.
#pragma once

#include "platform/topology.hpp"

#include <vector>

namespace gpurun::launcher {

using Cores = std::vector<size_t>; // indices into Machine::cores, ascending

struct Share {
    Cores cores;           // that it has, alone or with others
    std::vector<int> cpus; // of these cores, all or some
};

// `near`: the cores that each rank prefers, at least one. Ranks that prefer the same cores get equal shares of them.
// Whole cores, if there are as many as ranks, else hardware threads; if there are too few of those, too, each rank gets
// all cores that it prefers, and shares them.
std::vector<Share> share_cores(const platform::Machine& machine, const std::vector<Cores>& near);

} // namespace gpurun::launcher
