// The algorithms of reductions: what settings and reports call them. comm/collective/algorithms.hpp chooses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gpurun::base {

enum class Algorithm : uint8_t {
    kDirect,   // whole contributions, to all who need them, in one round
    kDoubling, // in round k, pairs of ranks 2^k apart exchange what they have reduced so far
    kPieces,   // each rank reduces a piece of the buffer, and sends that to all who need it
};

constexpr std::array<const char*, 3> kAlgorithmNames = {"direct", "doubling", "pieces"};
constexpr const char* name_of(Algorithm algorithm) { return kAlgorithmNames[static_cast<size_t>(algorithm)]; }

// What the user asks for; else the table chooses.
struct AlgorithmsAskedFor {
    std::optional<Algorithm> allreduce, reduce;
};

} // namespace gpurun::base
