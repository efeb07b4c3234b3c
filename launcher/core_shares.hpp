// Divides the cores of a machine among ranks, each of which would rather have some of them. A pure function.
#pragma once

#include "platform/topology.hpp"

#include <vector>

namespace gpurun::launcher {

using Cores = std::vector<size_t>; // indices into Machine::cores, ascending

struct Share {
    Cores cores;           // that it has, alone or with others
    std::vector<int> cpus; // of these cores, all or some
};

// `near` has the cores that each rank would rather have, which are never none. Ranks with the same ones get equal
// shares. Whole cores while there are as many as ranks, else hardware threads; where these do not suffice either,
// everybody gets all that is near.
std::vector<Share> share_cores(const platform::Machine& machine, const std::vector<Cores>& near);

} // namespace gpurun::launcher
