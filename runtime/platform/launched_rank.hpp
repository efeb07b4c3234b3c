// A process that another launcher has started as one of several ranks, if that serves PMI: mpirun, prterun, srun,
// mpiexec.hydra. By what the launcher says its ranks join a job of gpurun without being told (joining.hpp).
//
// Open MPI and Slurm say all that is needed on one node in the environment, so they are not asked: Open MPI's
// MPI_Init() fails in a process that has called PMIx_Finalize() before. Of others, and where ranks are on several
// nodes, PMIx (pmix.hpp) or PMI-1 (pmi1.hpp) is asked.
#pragma once

#include "platform/node_meeting.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace gpurun::platform {

struct LaunchedRank {
    std::string job; // a name that processes of this node can meet by (meeting_place.hpp), of no others
    uint32_t rank = 0;
    uint32_t size = 0;
    uint32_t local_rank = 0; // among those on this node
    uint32_t local_size = 0;
    // With ranks on several nodes: tells where these meet, once each of them has called it. kLauncher if one does not
    // in time.
    std::function<base::Result<MeetingOfRank>(int timeout_s)> meet;
};

// Nothing if no such launcher has started this process, or only this one. kLauncher if it cannot be asked.
base::Result<std::optional<LaunchedRank>> launched_rank(const std::function<const char*(const char*)>& lookup);

} // namespace gpurun::platform
