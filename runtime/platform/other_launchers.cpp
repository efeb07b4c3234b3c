#include "platform/other_launchers.hpp"

#include <cstdlib>

namespace gpurun::platform {

namespace {
struct Variables {
    const char* launcher;
    const char* rank;
    const char* size;
};
// What starts the others, such as Slurm, comes last.
constexpr Variables kKnown[] = {{kTorchrun, "RANK", "WORLD_SIZE"},
                                {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                {"PMI", "PMI_RANK", "PMI_SIZE"},
                                {kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
} // namespace

std::optional<OtherLauncher> other_launcher(const std::function<const char*(const char*)>& lookup) {
    for (const Variables& each : kKnown) {
        const char* rank = lookup(each.rank);
        const char* size = lookup(each.size);
        if (rank != nullptr && size != nullptr && std::atoi(size) > 1)
            return OtherLauncher{each.launcher, rank, size};
    }
    return std::nullopt;
}

} // namespace gpurun::platform
