// What the numbers were taken on, and what ranks tell rank 0 about themselves.
#pragma once

#include "figures.hpp"
#include "pair.hpp"
#include "report.hpp"

#include <gpurun/gpurun.h>

#include <string>
#include <vector>

namespace gpurun::bench {

// The driver's version, for the record; empty where there is none.
std::string driver_version();

// Every rank calls these at once.

// The devices of all ranks, in every rank.
std::vector<gpurun_device_info> all_devices(const Pair& pair);
// The samples of each pair, in rank 0; nothing in the others.
std::vector<Samples> all_samples(const Pair& pair, const Samples& mine);
// The first text that is not empty, in every rank; cut if it is very long.
std::string first_text(const Pair& pair, const std::string& mine);

Machine describe(const Pair& pair, const std::vector<gpurun_device_info>& devices);

// Two of the first `ranks` ranks use the same GPU.
bool any_share(int ranks, const std::vector<gpurun_device_info>& devices);

} // namespace gpurun::bench
