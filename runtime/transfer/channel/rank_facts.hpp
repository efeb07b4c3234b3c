// What a rank tells all others in its record in the job, by whatever channel they are reached.
#pragma once

#include "platform/job_segment.hpp"
#include "transfer/channel/peer_channel.hpp"

namespace gpurun::transfer {

void publish_common_facts(platform::RankRecord& own, const RankFacts& facts);
// Handles are for ranks of the same node, and are not among them.
RankFacts common_facts(const platform::RankRecord& record);

} // namespace gpurun::transfer
