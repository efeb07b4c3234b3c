// Who is next to whom in a communicator: a Cartesian grid of its ranks, or a graph.
//
// For messages both are the same, two lists of neighbours: from whom this rank gets something, and to whom it gives
// something. A rank may be a neighbour several times: in a periodic dimension of two, the other rank is that before and
// that behind; in one of one, the rank itself is both. So each has a number, the same at both ends, by which its
// message is known.
//
// Does not change, and is shared by a communicator and its duplicates. Pure.
#pragma once

#include "base/collectives.hpp"
#include "comm/group.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace gpurun::comm {

// Ranks in the order of their coordinates, of which the last one changes first.
class Cartesian {
  public:
    struct Dimension {
        int size; // 1 or more
        bool periodic;
        bool operator==(const Dimension&) const = default;
    };
    static constexpr int kMostDimensions = 64;

    // No dimension: a grid of one rank.
    explicit Cartesian(std::vector<Dimension> dimensions) : dimensions_(std::move(dimensions)) {}

    const std::vector<Dimension>& dimensions() const { return dimensions_; }
    // More than `most` if there are more, whatever number.
    int64_t ranks(int most = INT32_MAX) const;
    std::vector<int> coordinates(Rank of) const;
    // Around in periodic dimensions; none where a coordinate is outside of another one.
    std::optional<Rank> at(std::span<const int> coordinates) const;
    // So many steps away, or kProcNull.
    int shifted(Rank from, size_t dimension, int64_t steps) const;
    // With only some of its dimensions.
    Cartesian with(std::span<const bool> kept) const;

  private:
    std::vector<Dimension> dimensions_;
};

struct Neighbour {
    int peer;   // kProcNull: there is none
    int number; // tells the times apart that it is one
};

class Topology {
  public:
    // So many times can a rank be a source or a destination.
    static constexpr int kMostNumbers = 1 << base::kRoundBits;

    // Each rank's neighbours, dimension by dimension: the one before it, and the one behind it.
    Topology(Cartesian grid, Rank self);
    // By the ranks that it names, in their order. REQUIRES that it names none more often than kMostNumbers.
    Topology(std::span<const int> sources, std::span<const int> destinations);

    const Cartesian* grid() const { return grid_ ? &*grid_ : nullptr; }
    const std::vector<Neighbour>& sources() const { return sources_; }
    const std::vector<Neighbour>& destinations() const { return destinations_; }

  private:
    std::optional<Cartesian> grid_;
    std::vector<Neighbour> sources_;
    std::vector<Neighbour> destinations_;
};

// Fills those that are 0, so that the product is `ranks`: the largest one as small as can be, then the next, in
// descending order. False if that is not possible. REQUIRES that none is negative, and that `ranks` is positive.
bool choose_dimensions(int ranks, std::span<int> dimensions);

} // namespace gpurun::comm
