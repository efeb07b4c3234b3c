// Exchanges with neighbours, carried out by a model.
#include "comm/collective/neighbours.hpp"

#include "collective_model.hpp"
#include "support/unit.hpp"

using namespace gpurun;
using base::Collective;
using comm::Cartesian;
using comm::kProcNull;
using comm::Parts;
using comm::Rank;
using comm::Topology;
using gpurun::test::CollectiveModel;
using gpurun::test::content_of;
using gpurun::test::kUntouched;
namespace reference = gpurun::test::reference;
using reference::Content;

namespace {

constexpr size_t kBytes = 100;

Content part(int from, int place) {
    return reference::values(reference::kUint8, kBytes, static_cast<uint64_t>(from * 100 + place));
}

// What every rank has got, if it gives each destination a part of its own.
std::vector<Content> exchanged(const std::vector<std::shared_ptr<const Topology>>& topologies, uint64_t seed) {
    const int size = static_cast<int>(topologies.size());
    CollectiveModel model(Collective::kNeighborAlltoall, size, seed,
                          [&](int rank) { return topologies[static_cast<size_t>(rank)]; });
    std::vector<comm::Schedule::Buffer> got;
    for (int rank = 0; rank < size; ++rank) {
        const Topology& topology = *topologies[static_cast<size_t>(rank)];
        Content sent;
        for (int place = 0; place < static_cast<int>(topology.destinations().size()); ++place) {
            const Content each = part(rank, place);
            sent.insert(sent.end(), each.begin(), each.end());
        }
        got.push_back(model.buffer(rank, Content(topology.sources().size() * kBytes, kUntouched)));
        comm::build_neighbour_exchange(model.schedule(rank), Parts::equal(model.buffer(rank, sent), kBytes),
                                       Parts::equal(got.back(), kBytes));
    }
    model.run();
    std::vector<Content> contents;
    for (const comm::Schedule::Buffer& each : got)
        contents.push_back(content_of(each));
    return contents;
}

Content block(const Content& of, size_t place) {
    const auto first = of.begin() + static_cast<ptrdiff_t>(place * kBytes);
    return Content(first, first + static_cast<ptrdiff_t>(kBytes));
}

} // namespace

TEST_SUITE_BEGIN("neighbours");

TEST_CASE("what goes to the rank before comes from the one behind, in every grid, and an open edge is untouched") {
    for (const auto& dimensions : std::vector<std::vector<Cartesian::Dimension>>{{{1, true}},
                                                                                 {{2, true}},
                                                                                 {{2, false}},
                                                                                 {{5, true}},
                                                                                 {{2, true}, {2, true}},
                                                                                 {{1, true}, {3, false}, {2, true}}})
        for (uint64_t seed = 1; seed <= 5; ++seed) {
            const Cartesian grid(dimensions);
            std::vector<std::shared_ptr<const Topology>> topologies;
            for (int rank = 0; rank < grid.ranks(); ++rank)
                topologies.push_back(std::make_shared<const Topology>(grid, Rank{rank}));
            const std::vector<Content> got = exchanged(topologies, seed);
            for (int rank = 0; rank < grid.ranks(); ++rank)
                for (size_t dimension = 0; dimension < dimensions.size(); ++dimension) {
                    const int before = grid.shifted(Rank{rank}, dimension, -1);
                    const int behind = grid.shifted(Rank{rank}, dimension, 1);
                    const int place = static_cast<int>(2 * dimension);
                    const Content& own = got[static_cast<size_t>(rank)];
                    const Content untouched(kBytes, kUntouched);
                    CHECK(block(own, 2 * dimension) == (before == kProcNull ? untouched : part(before, place + 1)));
                    CHECK(block(own, 2 * dimension + 1) == (behind == kProcNull ? untouched : part(behind, place)));
                }
        }
}

TEST_CASE("messages between ranks that are neighbours several times come in their order, and to the rank itself, too") {
    const auto graph = [](std::vector<int> sources, std::vector<int> destinations) {
        return std::make_shared<const Topology>(sources, destinations);
    };
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        const std::vector<Content> got = exchanged({graph({1, 0, 0, 1}, {1, 0, 1, 0}), graph({0, 0}, {0, 0})}, seed);
        CHECK(block(got[0], 0) == part(1, 0));
        CHECK(block(got[0], 1) == part(0, 1));
        CHECK(block(got[0], 2) == part(0, 3));
        CHECK(block(got[0], 3) == part(1, 1));
        CHECK(block(got[1], 0) == part(0, 0));
        CHECK(block(got[1], 1) == part(0, 2));
    }
}

TEST_SUITE_END();
