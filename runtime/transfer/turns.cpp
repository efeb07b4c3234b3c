#include "transfer/turns.hpp"

#include "transfer/probe.hpp"

namespace gpurun::transfer {

uint32_t ranks_on_device(const platform::JobSegment& job, uint32_t rank) {
    const device::Identity mine = peer_identity(job.rank(rank));
    uint32_t count = 0;
    for (uint32_t each = 0; each < job.size(); ++each)
        if (each == rank || peer_identity(job.rank(each)) == mine)
            ++count;
    return count;
}

bool takes_turns(const platform::JobSegment& job, const base::Settings& settings, uint32_t rank) {
    return !settings.mps && ranks_on_device(job, rank) > 1;
}

} // namespace gpurun::transfer
