#include "transfer/channel/gpu_sharing.hpp"

#include <cstring>

namespace gpurun::transfer {

device::Identity device_of(const platform::RankRecord& record) {
    device::Identity identity;
    static_assert(sizeof identity <= sizeof record.device);
    std::memcpy(&identity, record.device.data(), sizeof identity);
    return identity;
}

bool share_device(const platform::RankRecord& a, const platform::RankRecord& b) {
    return a.node == b.node && device_of(a) == device_of(b);
}

uint32_t ranks_on_device(const platform::JobSegment& job, uint32_t rank) {
    uint32_t count = 0;
    for (uint32_t each = 0; each < job.size(); ++each)
        if (each == rank || share_device(job.rank(each), job.rank(rank)))
            ++count;
    return count;
}

bool takes_turns(const platform::JobSegment& job, bool mps, uint32_t rank) {
    return !mps && ranks_on_device(job, rank) > 1;
}

} // namespace gpurun::transfer
