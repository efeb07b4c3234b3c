// Grids and graphs of ranks: coordinates, neighbours, and dimensions that are chosen.
#include "comm/communicator.hpp"
#include "support/unit.hpp"

#include <set>
#include <tuple>

using namespace gpurun;
using comm::Cartesian;
using comm::choose_dimensions;
using comm::kProcNull;
using comm::Neighbour;
using comm::Rank;
using comm::Topology;

namespace {

using Ints = std::vector<int>;

Cartesian grid_of(const std::vector<Cartesian::Dimension>& dimensions) { return Cartesian(dimensions); }

// What is chosen; nothing if that is not possible.
Ints chosen(int ranks, Ints dimensions) { return choose_dimensions(ranks, dimensions) ? dimensions : Ints(); }

// Everything that some rank gives to another comes there as what that rank gets, and nothing else does.
void check_both_ends(const std::vector<Topology>& ranks) {
    std::set<std::tuple<int, int, int>> given, got; // by source, destination and number
    for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
        for (const Neighbour& each : ranks[static_cast<size_t>(rank)].destinations())
            if (each.peer != kProcNull)
                CHECK(given.insert({rank, each.peer, each.number}).second);
        for (const Neighbour& each : ranks[static_cast<size_t>(rank)].sources())
            if (each.peer != kProcNull)
                CHECK(got.insert({each.peer, rank, each.number}).second);
    }
    CHECK(given == got);
}

} // namespace

TEST_SUITE_BEGIN("topology");

TEST_CASE("the last coordinate changes first, and every rank is where its coordinates say") {
    const Cartesian grid = grid_of({{2, false}, {3, true}, {4, false}});
    CHECK(grid.ranks() == 24);
    CHECK(grid.coordinates(Rank{0}) == Ints{0, 0, 0});
    CHECK(grid.coordinates(Rank{1}) == Ints{0, 0, 1});
    CHECK(grid.coordinates(Rank{23}) == Ints{1, 2, 3});
    for (int rank = 0; rank < 24; ++rank)
        CHECK(grid.at(grid.coordinates(Rank{rank})) == Rank{rank});
}

TEST_CASE("coordinates go around in periodic dimensions only") {
    const Cartesian grid = grid_of({{2, false}, {3, true}});
    CHECK(grid.at(Ints{1, 3}) == Rank{3});
    CHECK(grid.at(Ints{1, -1}) == Rank{5});
    CHECK(grid.at(Ints{0, -7}) == Rank{2});
    CHECK(grid.at(Ints{0, INT32_MIN}).has_value());
    CHECK_FALSE(grid.at(Ints{2, 0}).has_value());
    CHECK_FALSE(grid.at(Ints{-1, 0}).has_value());
}

TEST_CASE("a shift ends at open edges, and goes around periodic ones, however far") {
    const Cartesian grid = grid_of({{3, false}, {4, true}});
    CHECK(grid.shifted(Rank{0}, 0, -1) == kProcNull);
    CHECK(grid.shifted(Rank{0}, 0, 2) == 8);
    CHECK(grid.shifted(Rank{0}, 0, 3) == kProcNull);
    CHECK(grid.shifted(Rank{0}, 1, -1) == 3);
    CHECK(grid.shifted(Rank{5}, 1, 4) == 5);
    CHECK(grid.shifted(Rank{5}, 1, int64_t{INT32_MAX}) == 4);
    CHECK(grid.shifted(Rank{5}, 1, -int64_t{INT32_MIN}) == 5);
    CHECK(grid.shifted(Rank{5}, 0, -int64_t{INT32_MIN}) == kProcNull);
}

TEST_CASE("a grid of no dimension has one rank, and parts of a grid have some of its dimensions") {
    CHECK(grid_of({}).ranks() == 1);
    CHECK(grid_of({}).at({}) == Rank{0});
    const bool kept[] = {true, false, true};
    const Cartesian part = grid_of({{2, false}, {3, true}, {4, true}}).with(kept);
    CHECK(part.dimensions() == std::vector<Cartesian::Dimension>{{2, false}, {4, true}});
    CHECK(grid_of({{INT32_MAX, false}, {INT32_MAX, false}, {INT32_MAX, false}}).ranks(100) > 100);
}

TEST_CASE("neighbours of a grid are those before and behind a rank in each dimension") {
    const Topology middle(grid_of({{3, false}, {3, true}}), Rank{1});
    REQUIRE(middle.sources().size() == 4);
    const int expected[] = {kProcNull, 4, 0, 2};
    for (size_t i = 0; i < 4; ++i) {
        CHECK(middle.sources()[i].peer == expected[i]);
        CHECK(middle.destinations()[i].peer == expected[i]);
    }
}

TEST_CASE("in a periodic dimension of two or one, what goes to the rank before comes from the one behind") {
    for (const int size : {1, 2}) {
        const Topology rank(grid_of({{size, true}}), Rank{0});
        CHECK(rank.sources()[0].peer == size - 1);
        CHECK(rank.sources()[1].peer == size - 1);
        CHECK(rank.destinations()[0].number == rank.sources()[1].number);
        CHECK(rank.destinations()[1].number == rank.sources()[0].number);
        CHECK(rank.destinations()[0].number != rank.destinations()[1].number);
    }
}

TEST_CASE("what a rank gives to a neighbour is what that one gets, in every grid and in graphs") {
    for (const auto& dimensions : std::vector<std::vector<Cartesian::Dimension>>{{},
                                                                                 {{1, true}},
                                                                                 {{1, false}},
                                                                                 {{2, true}},
                                                                                 {{5, true}},
                                                                                 {{2, true}, {2, true}},
                                                                                 {{1, true}, {3, false}, {2, true}},
                                                                                 {{2, true}, {2, false}, {2, true}}}) {
        const Cartesian grid = grid_of(dimensions);
        std::vector<Topology> ranks;
        for (int rank = 0; rank < grid.ranks(); ++rank)
            ranks.emplace_back(grid, Rank{rank});
        check_both_ends(ranks);
    }
    // Rank 0 gives to rank 1 twice and to itself; rank 1 to rank 0.
    check_both_ends({Topology(Ints{1, 0}, Ints{1, 0, 1}), Topology(Ints{0, 0}, Ints{0})});
}

TEST_CASE("a rank that a graph names several times has a number each time") {
    const Topology graph(Ints{3, 1, 3, 3}, Ints{});
    const int numbers[] = {0, 0, 1, 2};
    for (size_t i = 0; i < 4; ++i)
        CHECK(graph.sources()[i].number == numbers[i]);
    CHECK(graph.destinations().empty());
    CHECK(graph.grid() == nullptr);
}

TEST_CASE("dimensions are as equal as can be, and descend") {
    CHECK(chosen(12, {0, 0}) == Ints{4, 3});
    CHECK(chosen(16, {0, 0, 0}) == Ints{4, 2, 2});
    CHECK(chosen(24, {0, 0, 0}) == Ints{4, 3, 2});
    CHECK(chosen(36, {0, 0, 0}) == Ints{4, 3, 3});
    CHECK(chosen(72, {0, 0, 0}) == Ints{6, 4, 3});
    CHECK(chosen(7, {0, 0}) == Ints{7, 1});
    CHECK(chosen(1, {0, 0, 0}) == Ints{1, 1, 1});
    CHECK(chosen(INT32_MAX, {0, 0}) == Ints{INT32_MAX, 1}); // a prime
    CHECK(chosen(1 << 30, Ints(64, 0))[29] == 2);
    CHECK(chosen(223'092'870, {0, 0, 0}).size() == 3);
}

TEST_CASE("dimensions that are given stay, and what cannot be is refused") {
    CHECK(chosen(24, {0, 3, 0}) == Ints{4, 3, 2});
    CHECK(chosen(24, {0, 2}) == Ints{12, 2});
    CHECK(chosen(6, {3, 2}) == Ints{3, 2});
    CHECK(chosen(1, {}).empty());
    Ints none;
    CHECK(choose_dimensions(1, none));
    CHECK_FALSE(choose_dimensions(2, none));
    Ints left{5, 0}, short_of{3, 1};
    CHECK_FALSE(choose_dimensions(24, left));
    CHECK(left == Ints{5, 0});
    CHECK_FALSE(choose_dimensions(6, short_of));
}

TEST_SUITE_END();
