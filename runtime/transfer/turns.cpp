#include "transfer/turns.hpp"

#include "transfer/probe.hpp"

namespace gpurun::transfer {

bool shares_device(const platform::JobSegment& job, uint32_t rank) {
    const device::Identity mine = peer_identity(job.rank(rank));
    for (uint32_t other = 0; other < job.size(); ++other)
        if (other != rank && peer_identity(job.rank(other)) == mine)
            return true;
    return false;
}

bool takes_turns(const platform::JobSegment& job, const base::Settings& settings, uint32_t rank) {
    return !settings.mps && shares_device(job, rank);
}

} // namespace gpurun::transfer
