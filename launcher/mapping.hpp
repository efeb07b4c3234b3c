// Which device each rank gets, and how many ranks there are. Pure functions.
//
// Ranks take the chosen devices in turn, so that cudaSetDevice(local rank) of a ported program agrees; another order
// comes only from an option that asks for it.
#pragma once

#include "devices.hpp"
#include "platform/topology.hpp"
#include "program_options.hpp"

#include <optional>
#include <vector>

namespace gpurun::launcher {

// How many ranks the command line asks for; none if the devices decide.
base::Result<std::optional<size_t>> ranks_asked_for(const std::vector<Program>& programs,
                                                    const PlacementOptions& options);

struct Mapping {
    std::vector<size_t> chosen;  // indices of the devices that the job may use, in order
    std::vector<size_t> devices; // for each rank, the index of its device
};
base::Result<Mapping> map_ranks(const PlacementOptions& options, std::optional<size_t> ranks,
                                const std::vector<Device>& devices, const platform::Machine& machine);

} // namespace gpurun::launcher
