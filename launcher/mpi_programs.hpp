// Programs of MPI: gpurun starts them as it does all others, but each process is an MPI job of its own then.
#pragma once

#include "job.hpp"

#include <string>
#include <vector>

namespace gpurun::launcher {

// What to say of it; "": nothing. A program that needs libgpurun too knows both, and one rank is a job of one anyway.
// Of a script nothing is known.
std::string notice_of_mpi(const std::vector<ProgramPlan>& programs, size_t ranks);

} // namespace gpurun::launcher
