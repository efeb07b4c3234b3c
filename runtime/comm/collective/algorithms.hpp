// By which algorithm a reduction or a broadcast is made: the one that the user asks for, if it can, else by the first
// line of the table that fits. All ranks choose the same, since they look at nothing in which they differ.
#pragma once

#include "base/algorithms.hpp"
#include "base/collectives.hpp"
#include "base/reduction.hpp"

#include <climits>

namespace gpurun::comm {

using base::Algorithm;

// The same on all ranks.
struct AlgorithmWish {
    std::optional<Algorithm> asked_for;
    // The job's devices, which are on one node: what few ranks put into each other's mailboxes there takes one launch.
    bool on_gpus = false;
    bool by_nodes = false; // there are several, each with its ranks in a row, and one of them with some
};

struct CollectiveShape {
    base::Collective collective;
    int ranks = 1;
    size_t bytes = 0;
    bool rounds_once = false; // values of half precision: what is reduced in steps would be rounded in each
    bool captured = false;
    AlgorithmWish wish;
};

struct AlgorithmChoice {
    base::Collective collective;
    Algorithm algorithm;
    int most_ranks = INT_MAX;
    size_t most_bytes = SIZE_MAX;
    bool rounds_once = true; // whether it combines all operands in one step
    bool only_captured = false;
    bool only_on_gpus = false;
    bool only_by_nodes = false;
};

// Measured with 2 and 4 ranks (tests/bench/RESULTS.md, 2026-11-26), on GPUs with 6 and 8 (2026-11-28); for more, from
// the number of rounds, and of bytes that each rank sends.
constexpr AlgorithmChoice kAlgorithms[] = {
    {base::Collective::kAllreduce, Algorithm::kDirect, 2, 256 << 10}, // a mail each way
    {.collective = base::Collective::kAllreduce,
     .algorithm = Algorithm::kDirect,
     .most_ranks = 2,
     .most_bytes = 512 << 10,
     .only_on_gpus = true},
    // The same bytes as in pieces, which only outside of graphs need no messages of their own for their answers.
    {.collective = base::Collective::kAllreduce,
     .algorithm = Algorithm::kDirect,
     .most_ranks = 2,
     .only_captured = true},
    {.collective = base::Collective::kAllreduce,
     .algorithm = Algorithm::kDirect,
     .most_ranks = 8,
     .most_bytes = 256 << 10,
     .only_on_gpus = true},
    {base::Collective::kAllreduce, Algorithm::kDirect, 4, 8 << 10},
    // Of each node's bytes as many cross as with two ranks, where pieces cross as often as it has ranks.
    {.collective = base::Collective::kAllreduce,
     .algorithm = Algorithm::kDoubling,
     .most_bytes = 8 << 10,
     .rounds_once = false,
     .only_by_nodes = true},
    {.collective = base::Collective::kAllreduce,
     .algorithm = Algorithm::kNodes,
     .rounds_once = false,
     .only_by_nodes = true},
    {base::Collective::kAllreduce, Algorithm::kPieces, 4},
    {.collective = base::Collective::kAllreduce,
     .algorithm = Algorithm::kDoubling,
     .most_bytes = 32 << 10,
     .rounds_once = false},
    {base::Collective::kAllreduce, Algorithm::kDirect, INT_MAX, 4 << 10},
    {base::Collective::kAllreduce, Algorithm::kPieces},
    {base::Collective::kReduce, Algorithm::kDirect, 2},
    {.collective = base::Collective::kReduce,
     .algorithm = Algorithm::kDirect,
     .most_ranks = 4,
     .most_bytes = 512 << 10,
     .only_on_gpus = true},
    {base::Collective::kReduce, Algorithm::kDirect, INT_MAX, 256 << 10},
    {base::Collective::kReduce, Algorithm::kPieces},
    {base::Collective::kBcast, Algorithm::kDirect, 2},
    {.collective = base::Collective::kBcast,
     .algorithm = Algorithm::kDirect,
     .most_ranks = 8,
     .most_bytes = 256 << 10,
     .only_on_gpus = true},
    {.collective = base::Collective::kBcast, .algorithm = Algorithm::kPieces, .most_ranks = 8, .only_on_gpus = true},
    {.collective = base::Collective::kBcast, .algorithm = Algorithm::kTree, .only_by_nodes = true}, // crosses once
    {base::Collective::kBcast, Algorithm::kTree, INT_MAX, 1 << 20},
    {base::Collective::kBcast, Algorithm::kPieces, 16},
    {base::Collective::kBcast, Algorithm::kTree},
};

constexpr bool can(Algorithm algorithm, const CollectiveShape& shape) {
    switch (algorithm) {
    case Algorithm::kDoubling: // needs somebody to exchange with
        return shape.collective == base::Collective::kAllreduce && !shape.rounds_once && shape.ranks > 1;
    case Algorithm::kNodes: // likewise
        return shape.collective == base::Collective::kAllreduce && !shape.rounds_once && shape.wish.by_nodes;
    case Algorithm::kTree: return shape.collective == base::Collective::kBcast;
    case Algorithm::kDirect:
    case Algorithm::kPieces: return true;
    }
    return false;
}

constexpr Algorithm choose_algorithm(const CollectiveShape& shape) {
    if (shape.wish.asked_for && can(*shape.wish.asked_for, shape))
        return *shape.wish.asked_for;
    for (const AlgorithmChoice& each : kAlgorithms)
        if (each.collective == shape.collective && shape.ranks <= each.most_ranks && shape.bytes <= each.most_bytes &&
            (each.rounds_once || !shape.rounds_once) && (shape.captured || !each.only_captured) &&
            (shape.wish.on_gpus || !each.only_on_gpus) && (shape.wish.by_nodes || !each.only_by_nodes))
            return each.algorithm;
    return Algorithm::kDirect;
}

constexpr bool rounds_once(const base::Reduction& reduction) {
    return reduction.type == base::Type::kFloat16 || reduction.type == base::Type::kBfloat16;
}

} // namespace gpurun::comm
