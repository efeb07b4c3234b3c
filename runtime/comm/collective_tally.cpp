#include "comm/collective_tally.hpp"

#include "base/format.hpp"

#include <algorithm>

namespace gpurun::comm {

void CollectiveTally::add(const Schedule& schedule, size_t bytes) {
    const base::Collective kind = schedule.kind();
    const int ranks = schedule.members().size();
    const auto same = [&](const Line& each) {
        return each.kind == kind && each.ranks == ranks && each.algorithm == schedule.algorithm();
    };
    auto line = std::find_if(lines_.begin(), lines_.end(), same);
    if (line == lines_.end())
        line = lines_.insert(lines_.end(), Line{kind, ranks, schedule.algorithm()});
    ++line->calls;
    line->bytes += bytes;
}

std::string CollectiveTally::report(WorldRank self) const {
    std::string text;
    for (const Line& each : lines_)
        text += base::format("gpurun: rank {}: {} among {} ranks{}: {} calls, {} bytes\n", self.value,
                             base::name_of(each.kind), each.ranks,
                             each.algorithm ? base::format(" ({})", base::name_of(*each.algorithm)) : std::string(),
                             each.calls, each.bytes);
    return text;
}

} // namespace gpurun::comm
