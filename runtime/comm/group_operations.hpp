// Groups made of other groups, and how two of them compare, as MPI defines it. Pure.
#pragma once

#include "base/status.hpp"
#include "comm/group.hpp"

#include <span>

namespace gpurun::comm {

// Of two groups, or of two communicators.
enum class Comparison {
    kIdent,     // the same processes at the same ranks; of communicators: the same one
    kCongruent, // of communicators: the same processes at the same ranks, and contexts of their own
    kSimilar,   // the same processes at other ranks
    kUnequal,
};
Comparison compare(const Group& one, const Group& other);

// The members of the first, then those of the second that the first lacks.
Group unite(const Group& first, const Group& second);
// In the order of the first: those that are in both; those that the second lacks.
Group intersect(const Group& first, const Group& second);
Group subtract(const Group& first, const Group& second);

// Those at these ranks, in this order; all others, in their order. kRank if one is no rank of the group, or is given
// twice.
base::Result<Group> include(const Group& group, std::span<const int> ranks);
base::Result<Group> exclude(const Group& group, std::span<const int> ranks);

// Each rank from `first` on, by steps of `stride`, up to `last` or the one before it.
struct RankRange {
    int first;
    int last;
    int stride;
};
// The ranks of all of them, in order. kRank if a range leaves the group, kArgument if it cannot end.
base::Result<std::vector<int>> expand(const Group& group, std::span<const RankRange> ranges);

} // namespace gpurun::comm
