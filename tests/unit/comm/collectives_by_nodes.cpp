// The schedules of collectives among ranks of several nodes, carried out by a model.
#include "collective_model.hpp"
#include "comm/collective/allreduce.hpp"
#include "comm/collective/bcast.hpp"
#include "comm/collective/gather.hpp"
#include "support/unit.hpp"

using namespace gpurun;
using base::Collective;
using comm::NodeLayout;
using comm::Parts;
using comm::Rank;
using comm::Schedule;
using gpurun::test::content_of;
using gpurun::test::kUntouched;
using Model = gpurun::test::CollectiveModel;
namespace reference = gpurun::test::reference;
using reference::Content;

namespace {

// The first rank of each node, and the number of all.
const std::vector<std::vector<int>> kLayouts = {{0, 2, 4},    {0, 1, 3},       {0, 4, 5},          {0, 4, 8},
                                                {0, 3, 5, 9}, {0, 2, 4, 6, 8}, {0, 1, 2, 3, 4, 6}, {0, 8, 16}};

template <typename Check>
void for_each_layout(const Check& check) {
    for (const auto& firsts : kLayouts) {
        CAPTURE(firsts.size());
        CAPTURE(firsts.back());
        check(std::make_shared<const NodeLayout>(firsts), firsts.back());
    }
}

} // namespace

TEST_SUITE_BEGIN("collectives by nodes");

TEST_CASE("a layout is that of ranks on several nodes") {
    const comm::Group group({{4}, {2}, {0}, {1}});
    const std::vector<uint32_t> nodes = {7, 7, 3, 3, 3};
    const auto layout = NodeLayout::of(group, nodes);
    REQUIRE(layout != nullptr);
    CHECK(layout->count() == 2);
    CHECK(layout->first(1) == 2);
    CHECK(layout->ranks(1) == 2);
    CHECK(layout->node_of(Rank{1}) == 0);
    CHECK(layout->node_of(Rank{2}) == 1);
    CHECK(layout->in_rows());
    CHECK(NodeLayout::of(comm::Group({{4}, {2}, {3}}), nodes) == nullptr);
    CHECK_FALSE(NodeLayout::of(comm::Group({{4}, {0}, {3}}), nodes)->in_rows()); // in turn
    const NodeLayout unequal({0, 3, 4, 9});
    CHECK(unequal.fewest() == 1);
    CHECK(unequal.most() == 5);
}

TEST_CASE("an all-reduce by nodes gives every rank the same, combined in the order of the ranks") {
    for_each_layout([](const auto& nodes, int size) {
        for (const size_t count : {size_t{1}, size_t{3}, size_t{1000}, size_t{40'001}})
            for (const bool in_place : {false, true}) {
                CAPTURE(count);
                CAPTURE(in_place);
                Model model(Collective::kAllreduce, size, count + static_cast<size_t>(size), nodes);
                std::vector<Content> contents;
                std::vector<Schedule::Buffer> inputs, results;
                for (int rank = 0; rank < size; ++rank) {
                    contents.push_back(reference::values(reference::kInt64, count, static_cast<uint64_t>(rank) + 1));
                    inputs.push_back(model.buffer(rank, contents.back()));
                    results.push_back(in_place ? inputs.back()
                                               : model.buffer(rank, Content(contents[0].size(), kUntouched)));
                    comm::build_allreduce(
                        model.schedule(rank),
                        {.reduction = {base::Type::kInt64, base::Op::kSum, static_cast<uint32_t>(size)},
                         .input = inputs.back(),
                         .result = results.back(),
                         .wish = {.asked_for = comm::Algorithm::kNodes, .by_nodes = true}});
                    CHECK(model.schedule(rank).algorithm() == comm::Algorithm::kNodes);
                }
                // As one rank a node in pieces: what it sends is its input, but for its piece, and its result to all.
                const auto others = static_cast<size_t>(nodes->count()) - 1;
                CHECK(model.most_leaving(*nodes) <= 2 * others *
                                                        (contents[0].size() / static_cast<size_t>(nodes->count()) +
                                                         16 * static_cast<size_t>(nodes->fewest() * nodes->count())));
                model.run();
                const Content expected =
                    reference::reduced(reference::kInt64, reference::kAvg, contents, static_cast<unsigned>(size));
                for (int rank = 0; rank < size; ++rank) {
                    CHECK(content_of(results[static_cast<size_t>(rank)]) == expected);
                    if (!in_place)
                        CHECK(content_of(inputs[static_cast<size_t>(rank)]) == contents[static_cast<size_t>(rank)]);
                }
            }
    });
}

TEST_CASE("an all-reduce by nodes of a buffer beyond its scratch memory goes in chunks") {
    const auto nodes = std::make_shared<const NodeLayout>(std::vector<int>{0, 2, 4});
    constexpr size_t kBytes = size_t{80} << 20;
    Model model(Collective::kAllreduce, 4, 1, nodes);
    std::vector<Schedule::Buffer> buffers;
    for (int rank = 0; rank < 4; ++rank) {
        buffers.push_back(model.buffer(rank, Content(kBytes, static_cast<uint8_t>(rank + 1))));
        comm::build_allreduce(model.schedule(rank), {.reduction = {base::Type::kUint8, base::Op::kSum, 0},
                                                     .input = buffers.back(),
                                                     .result = buffers.back(),
                                                     .wish = {.by_nodes = true}});
        CHECK(model.schedule(rank).scratch_bytes() <= 2 * comm::kMostScratchBytes);
    }
    model.run();
    for (const Schedule::Buffer& each : buffers)
        CHECK(content_of(each) == Content(kBytes, 10));
}

TEST_CASE("which algorithm several nodes take by themselves") {
    const auto chosen = [](Collective collective, size_t bytes, bool by_nodes, bool rounds_once = false) {
        return comm::choose_algorithm({.collective = collective,
                                       .ranks = 8,
                                       .bytes = bytes,
                                       .rounds_once = rounds_once,
                                       .wish = {.by_nodes = by_nodes}});
    };
    CHECK(chosen(Collective::kAllreduce, 1 << 20, true) == comm::Algorithm::kNodes);
    CHECK(chosen(Collective::kAllreduce, 1 << 20, false) == comm::Algorithm::kPieces);
    CHECK(chosen(Collective::kAllreduce, 1 << 20, true, true) == comm::Algorithm::kPieces); // rounded once
    CHECK(chosen(Collective::kAllreduce, 8, true) == comm::Algorithm::kDoubling);
    CHECK(chosen(Collective::kBcast, 1 << 24, true) == comm::Algorithm::kTree);
    CHECK(chosen(Collective::kBcast, 1 << 24, false) == comm::Algorithm::kPieces);
}

TEST_CASE("an all-gather by nodes gives every rank all parts, each of which leaves its node once") {
    for_each_layout([](const auto& nodes, int size) {
        for (const bool in_place : {false, true}) {
            CAPTURE(in_place);
            Model model(Collective::kAllgatherv, size, static_cast<uint64_t>(size), nodes);
            std::vector<Parts::Part> parts;
            size_t bytes = 0;
            for (int rank = 0; rank < size; ++rank) { // rank 1 gives nothing
                parts.push_back({bytes, rank == 1 ? 0 : 5000 + static_cast<size_t>(rank) * 7});
                bytes += parts.back().bytes;
            }
            const auto part_of = [&](int rank) {
                return reference::values(reference::kUint8, parts[static_cast<size_t>(rank)].bytes,
                                         static_cast<uint64_t>(rank) + 1);
            };
            Content expected;
            for (int rank = 0; rank < size; ++rank) {
                const Content part = part_of(rank);
                expected.insert(expected.end(), part.begin(), part.end());
            }
            std::vector<Schedule::Buffer> all;
            for (int rank = 0; rank < size; ++rank) {
                Content before(bytes, kUntouched);
                const Content part = part_of(rank);
                if (in_place)
                    std::copy(part.begin(), part.end(),
                              before.begin() + static_cast<ptrdiff_t>(parts[static_cast<size_t>(rank)].offset));
                all.push_back(model.buffer(rank, before));
                comm::build_allgather(model.schedule(rank),
                                      in_place ? std::nullopt : std::optional(model.buffer(rank, part)),
                                      Parts::listed(all.back(), parts));
            }
            size_t most = 0;
            for (int node = 0; node < nodes->count(); ++node) {
                size_t own = 0;
                for (int rank = nodes->first(node); rank < nodes->first(node + 1); ++rank)
                    own += parts[static_cast<size_t>(rank)].bytes;
                most = std::max(most, own * static_cast<size_t>(nodes->count() - 1));
            }
            CHECK(model.most_leaving(*nodes) == most);
            model.run();
            for (const Schedule::Buffer& each : all)
                CHECK(content_of(each) == expected);
        }
    });
}
