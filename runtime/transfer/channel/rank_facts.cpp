#include "transfer/channel/rank_facts.hpp"

#include "transfer/channel/gpu_sharing.hpp"

#include <cstring>

namespace gpurun::transfer {

void publish_common_facts(platform::RankRecord& own, const RankFacts& facts) {
    static_assert(sizeof facts.device <= sizeof own.device);
    std::memcpy(own.device.data(), &facts.device, sizeof facts.device);
    own.orders_by_events = facts.orders_by_events ? 1 : 0;
    own.checks = facts.checks ? 1 : 0;
    own.algorithms = facts.algorithms;
}

RankFacts common_facts(const platform::RankRecord& record) {
    RankFacts facts;
    facts.device = device_of(record);
    facts.orders_by_events = record.orders_by_events != 0;
    facts.checks = record.checks != 0;
    facts.algorithms = record.algorithms;
    return facts;
}

} // namespace gpurun::transfer
