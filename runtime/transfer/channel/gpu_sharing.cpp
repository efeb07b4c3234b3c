#include "transfer/channel/gpu_sharing.hpp"

#include <cstring>

namespace gpurun::transfer {

device::Identity device_of(const platform::RankRecord& record) {
    device::Identity identity;
    static_assert(sizeof identity <= sizeof record.device);
    std::memcpy(&identity, record.device.data(), sizeof identity);
    return identity;
}

uint32_t ranks_on_device(const platform::JobSegment& job, uint32_t rank) {
    const platform::RankRecord& own = job.rank(rank);
    const device::Identity mine = device_of(own);
    uint32_t count = 0;
    for (uint32_t each = 0; each < job.size(); ++each) {
        const platform::RankRecord& record = job.rank(each);
        if (each == rank || (record.node == own.node && device_of(record) == mine))
            ++count;
    }
    return count;
}

bool takes_turns(const platform::JobSegment& job, bool mps, uint32_t rank) {
    return !mps && ranks_on_device(job, rank) > 1;
}

} // namespace gpurun::transfer
