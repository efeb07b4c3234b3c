// By which algorithm a reduction is made: the one that the user asks for, if it can, else by the first line of the
// table that fits. All ranks choose the same, since they look at nothing in which they differ.
#pragma once

#include "base/algorithms.hpp"
#include "base/collectives.hpp"
#include "base/reduction.hpp"

#include <climits>

namespace gpurun::comm {

using base::Algorithm;

struct CollectiveShape {
    base::Collective collective;
    int ranks = 1;
    size_t bytes = 0;
    bool rounds_once = false; // values of half precision: what is reduced in steps would be rounded in each
    bool captured = false;
    std::optional<Algorithm> asked_for;
};

struct AlgorithmChoice {
    base::Collective collective;
    Algorithm algorithm;
    int most_ranks = INT_MAX;
    size_t most_bytes = SIZE_MAX;
    bool rounds_once = true; // whether it combines all operands in one step
    bool only_captured = false;
};

// Not measured yet: from the number of rounds, and of bytes that each rank sends.
constexpr AlgorithmChoice kAlgorithms[] = {
    {base::Collective::kAllreduce, Algorithm::kDirect, 2, 256 << 10}, // a mail each way
    // The same bytes as in pieces, which only outside of graphs need no messages of their own for their answers.
    {base::Collective::kAllreduce, Algorithm::kDirect, 2, SIZE_MAX, true, true},
    {base::Collective::kAllreduce, Algorithm::kDirect, 4, 32 << 10},
    {base::Collective::kAllreduce, Algorithm::kDoubling, INT_MAX, 32 << 10, false},
    {base::Collective::kAllreduce, Algorithm::kDirect, INT_MAX, 4 << 10},
    {base::Collective::kAllreduce, Algorithm::kPieces},
    {base::Collective::kReduce, Algorithm::kDirect, 2},
    {base::Collective::kReduce, Algorithm::kDirect, INT_MAX, 256 << 10},
    {base::Collective::kReduce, Algorithm::kPieces},
};

constexpr bool can(Algorithm algorithm, const CollectiveShape& shape) {
    return algorithm != Algorithm::kDoubling ||
           (shape.collective == base::Collective::kAllreduce && !shape.rounds_once);
}

constexpr Algorithm choose_algorithm(const CollectiveShape& shape) {
    if (shape.asked_for && can(*shape.asked_for, shape))
        return *shape.asked_for;
    for (const AlgorithmChoice& each : kAlgorithms)
        if (each.collective == shape.collective && shape.ranks <= each.most_ranks && shape.bytes <= each.most_bytes &&
            (each.rounds_once || !shape.rounds_once) && (shape.captured || !each.only_captured))
            return each.algorithm;
    return Algorithm::kDirect;
}

constexpr bool rounds_once(const base::Reduction& reduction) {
    return reduction.type == base::Type::kFloat16 || reduction.type == base::Type::kBfloat16;
}

} // namespace gpurun::comm
