#include "transfer/channel/rank_facts.hpp"

#include "transfer/channel/gpu_sharing.hpp"

#include <cstring>

namespace gpurun::transfer {

namespace {

using Asked = std::optional<base::Algorithm>;

uint8_t number_of(Asked asked) { return asked ? static_cast<uint8_t>(1 + static_cast<uint8_t>(*asked)) : 0; }

Asked asked_for(uint8_t number) { return number != 0 ? Asked(static_cast<base::Algorithm>(number - 1)) : std::nullopt; }

} // namespace

void publish_common_facts(platform::RankRecord& own, const RankFacts& facts) {
    static_assert(sizeof facts.device <= sizeof own.device);
    std::memcpy(own.device.data(), &facts.device, sizeof facts.device);
    own.orders_by_events = facts.orders_by_events ? 1 : 0;
    own.checks = facts.checks ? 1 : 0;
    own.algorithms = {number_of(facts.algorithms.allreduce), number_of(facts.algorithms.reduce),
                      number_of(facts.algorithms.bcast)};
}

RankFacts common_facts(const platform::RankRecord& record) {
    RankFacts facts;
    facts.device = device_of(record);
    facts.orders_by_events = record.orders_by_events != 0;
    facts.checks = record.checks != 0;
    facts.algorithms = {asked_for(record.algorithms[0]), asked_for(record.algorithms[1]),
                        asked_for(record.algorithms[2])};
    return facts;
}

} // namespace gpurun::transfer
