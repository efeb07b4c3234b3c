// The algorithms of reductions and broadcasts: what settings and reports call them. comm/collective/algorithms.hpp
// chooses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gpurun::base {

enum class Algorithm : uint8_t {
    kDirect,   // the whole, to all who need it, in one round
    kDoubling, // in round k, pairs of ranks 2^k apart exchange what they have reduced so far
    kPieces,   // each rank reduces, or gets, a piece of the buffer, and sends that to all who need it
    kTree,     // who has the buffer passes it on to those below it in a binomial tree
};

constexpr std::array<const char*, 4> kAlgorithmNames = {"direct", "doubling", "pieces", "tree"};
constexpr const char* name_of(Algorithm algorithm) { return kAlgorithmNames[static_cast<size_t>(algorithm)]; }

// What the user asks for; else the table chooses.
struct AlgorithmsAskedFor {
    std::optional<Algorithm> allreduce, reduce, bcast;

    bool operator==(const AlgorithmsAskedFor&) const = default;
};

} // namespace gpurun::base
