#include "comm/context_ids.hpp"

#include "base/check.hpp"
#include "platform/job_segment.hpp"

#include <algorithm>

namespace gpurun::comm {

static_assert(ContextIdParts(platform::kMaxJobRanks).generations() >= 16);

uint32_t ContextIds::propose() {
    if (free_.empty()) {
        if (indices_.size() == kMost)
            return kNoId;
        free_.push_back(static_cast<uint32_t>(indices_.size()));
        indices_.emplace_back();
    }
    const uint32_t place = free_.front();
    free_.pop_front();
    return parts_.make(self_, indices_[place].generation, place + kFirstIndex);
}

void ContextIds::take_back(uint32_t id) {
    GPURUN_ASSERT(is_current(id) && !at(id).given);
    free_.push_front(ContextIdParts::index(id) - kFirstIndex); // the same id comes next
}

void ContextIds::give(uint32_t id, std::span<const WorldRank> members) {
    GPURUN_ASSERT(is_current(id) && !at(id).given);
    Index& index = at(id);
    index.given = true;
    for (const WorldRank each : members)
        if (std::find(index.let_go.begin(), index.let_go.end(), each) == index.let_go.end())
            index.holders.push_back(each);
    index.let_go.clear();
    free_if_unheld(ContextIdParts::index(id) - kFirstIndex);
}

void ContextIds::let_go(uint32_t id, WorldRank member) {
    if (!is_current(id))
        return;
    Index& index = at(id);
    if (!index.given) {
        index.let_go.push_back(member);
        return;
    }
    std::erase(index.holders, member);
    free_if_unheld(ContextIdParts::index(id) - kFirstIndex);
}

void ContextIds::lose(WorldRank dead) {
    for (uint32_t place = 0; place < indices_.size(); ++place) {
        std::erase(indices_[place].holders, dead);
        free_if_unheld(place);
    }
}

bool ContextIds::is_current(uint32_t id) const {
    const uint32_t index = ContextIdParts::index(id);
    return parts_.giver(id) == self_ && index >= kFirstIndex && index - kFirstIndex < indices_.size() &&
           indices_[index - kFirstIndex].generation == parts_.generation(id);
}

void ContextIds::free_if_unheld(uint32_t place) {
    Index& index = indices_[place];
    if (!index.given || !index.holders.empty())
        return;
    index.given = false;
    index.generation = (index.generation + 1) & (parts_.generations() - 1);
    free_.push_back(place);
}

} // namespace gpurun::comm
