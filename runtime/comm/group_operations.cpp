#include "comm/group_operations.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <iterator>

namespace gpurun::comm {

using base::Result;
using base::Status;

namespace {

Group select_members(const Group& from, const Group& other, bool in_other) {
    std::vector<WorldRank> members;
    std::copy_if(from.members().begin(), from.members().end(), std::back_inserter(members),
                 [&](WorldRank each) { return other.rank_of(each).has_value() == in_other; });
    return Group(std::move(members));
}

// Which ranks of the group are in the list.
Result<std::vector<bool>> mark_ranks(const Group& group, std::span<const int> ranks) {
    std::vector<bool> marked(static_cast<size_t>(group.size()), false);
    for (const int rank : ranks) {
        if (!group.has(rank))
            return base::error(Status::kRank, "{} is not a rank of the group, which has {} ranks", rank, group.size());
        if (marked[static_cast<size_t>(rank)])
            return base::error(Status::kRank, "rank {} is given twice: a group has each process once", rank);
        marked[static_cast<size_t>(rank)] = true;
    }
    return marked;
}

} // namespace

Comparison compare(const Group& one, const Group& other) {
    if (one.members() == other.members())
        return Comparison::kIdent;
    const bool same_size = one.size() == other.size();
    return same_size && subtract(one, other).size() == 0 ? Comparison::kSimilar : Comparison::kUnequal;
}

Group unite(const Group& first, const Group& second) {
    std::vector<WorldRank> members = first.members();
    const Group added = subtract(second, first);
    members.insert(members.end(), added.members().begin(), added.members().end());
    return Group(std::move(members));
}

Group intersect(const Group& first, const Group& second) { return select_members(first, second, true); }

Group subtract(const Group& first, const Group& second) { return select_members(first, second, false); }

Result<Group> include(const Group& group, std::span<const int> ranks) {
    GPURUN_TRY(mark_ranks(group, ranks));
    std::vector<WorldRank> members;
    for (const int rank : ranks)
        members.push_back(group.world(Rank{rank}));
    return Group(std::move(members));
}

Result<Group> exclude(const Group& group, std::span<const int> ranks) {
    GPURUN_ASSIGN(const std::vector<bool> marked, mark_ranks(group, ranks));
    std::vector<WorldRank> members;
    for (int rank = 0; rank < group.size(); ++rank)
        if (!marked[static_cast<size_t>(rank)])
            members.push_back(group.world(Rank{rank}));
    return Group(std::move(members));
}

Result<std::vector<int>> expand(const Group& group, std::span<const RankRange> ranges) {
    std::vector<int> ranks;
    for (const RankRange& each : ranges) {
        if (!group.has(each.first) || !group.has(each.last))
            return base::error(Status::kRank, "the range {} to {} leaves the group, which has {} ranks", each.first,
                               each.last, group.size());
        if (each.stride == 0)
            return base::error(Status::kArgument, "the range {} to {} has stride 0, and no end", each.first, each.last);
        const auto is_in = [&](int64_t rank) { return each.stride > 0 ? rank <= each.last : rank >= each.last; };
        for (int64_t rank = each.first; is_in(rank); rank += each.stride)
            ranks.push_back(static_cast<int>(rank));
    }
    return ranks;
}

} // namespace gpurun::comm
