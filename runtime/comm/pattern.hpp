// Which messages a receive or a probe accepts.
#pragma once

#include "comm/communicator.hpp"
#include "transfer/channel/record.hpp"

namespace gpurun::comm {

struct Pattern {
    uint32_t context = 0;
    bool any_source = false;
    WorldRank source{};           // unless any_source
    int tag = 0;                  // or kAnyTag
    const Group* group = nullptr; // whose ranks it speaks of

    static Pattern of(const Group& group, uint32_t context, int source, int tag) {
        if (source == kAnySource)
            return {context, true, {}, tag, &group};
        return {context, false, group.world(Rank{source}), tag, &group};
    }
    bool any_tag() const { return tag == kAnyTag; }
    bool fits(WorldRank from, const transfer::Envelope& envelope) const {
        return context == envelope.context && (any_source || source == from) && (any_tag() || tag == envelope.tag);
    }
    // In the ranks of its group.
    int rank_of(WorldRank process) const { return group->rank_of(process).value_or(Rank{kProcNull}).value; }
};

} // namespace gpurun::comm
