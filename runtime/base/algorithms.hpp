// The algorithms of reductions and broadcasts: what settings and reports call them, and what the user asks for.
// comm/collective/algorithms.hpp chooses.
#pragma once

#include "base/status.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace gpurun::base {

enum class Algorithm : uint8_t {
    kDirect,   // the whole, to all who need it, in one round
    kDoubling, // in round k, pairs of ranks 2^k apart exchange what they have reduced so far
    kPieces,   // each rank reduces, or gets, a piece of the buffer, and sends that to all who need it
    kTree,     // who has the buffer passes it on to those below it in a binomial tree
    kNodes,    // each node reduces, then each piece crosses between nodes once; what several nodes take by themselves
};

constexpr std::array<const char*, 5> kAlgorithmNames = {"direct", "doubling", "pieces", "tree", "nodes"};
constexpr const char* name_of(Algorithm algorithm) { return kAlgorithmNames[static_cast<size_t>(algorithm)]; }

// What the user asks for, by the size of the buffer: "direct:64K,pieces". Lies in shared memory: all zero are no rules.
class AlgorithmRules {
  public:
    static constexpr size_t kMost = 8;

    // `allowed`: bit i for Algorithm i. kSetting: says what is allowed.
    static Result<AlgorithmRules> read(std::string_view text, unsigned allowed);

    // Of the first rule that is for so many bytes. None: the user leaves it to the table.
    std::optional<Algorithm> at(size_t bytes) const {
        for (const Rule& each : rules_)
            if (bytes < each.end)
                return each.algorithm != 0 ? std::optional(static_cast<Algorithm>(each.algorithm - 1)) : std::nullopt;
        return std::nullopt;
    }

    bool operator==(const AlgorithmRules&) const = default;

  private:
    struct Rule {
        uint64_t end = 0;       // the first size that it is not for; 0: there is no such rule
        uint64_t algorithm = 0; // 1 + an Algorithm; 0: as the table says
        bool operator==(const Rule&) const = default;
    };
    std::array<Rule, kMost> rules_{};
};

struct AlgorithmsAskedFor {
    AlgorithmRules allreduce, reduce, bcast;

    bool operator==(const AlgorithmsAskedFor&) const = default;
};
static_assert(std::is_trivially_copyable_v<AlgorithmsAskedFor>);

// The collectives for which there are several, and which ones.
struct AlgorithmChoices {
    const char* collective;
    AlgorithmRules AlgorithmsAskedFor::*rules;
    unsigned allowed;
};
constexpr unsigned allowed(Algorithm algorithm) { return 1U << static_cast<unsigned>(algorithm); }
constexpr AlgorithmChoices kAlgorithmChoices[] = {
    {"allreduce", &AlgorithmsAskedFor::allreduce,
     allowed(Algorithm::kDirect) | allowed(Algorithm::kDoubling) | allowed(Algorithm::kPieces)},
    {"reduce", &AlgorithmsAskedFor::reduce, allowed(Algorithm::kDirect) | allowed(Algorithm::kPieces)},
    {"bcast", &AlgorithmsAskedFor::bcast,
     allowed(Algorithm::kDirect) | allowed(Algorithm::kTree) | allowed(Algorithm::kPieces)},
};

} // namespace gpurun::base
