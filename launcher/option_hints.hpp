// What to say of an option that gpurun does not have: what it is called here, if other launchers have it, or the name
// that was probably meant. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpurun::launcher {

// Of an option of mpirun, mpiexec.hydra, srun or torchrun, which is written as in "--np", "-x" or "-N2": what stands
// for it here. "": nothing is known of it.
std::string hint_of_other_launchers(std::string_view option);

// The one of `names` (without dashes) that `option` was probably meant to be: another spelling, its beginning, or one
// or two typing errors away. "": none, or several.
std::string nearest_name(std::string_view option, std::span<const std::string> names);

} // namespace gpurun::launcher
