// From what algorithms take to the settings that choose the best.
#include "tuning.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace gpurun::bench;

namespace {

// An all-reduce's: gpurun's own choice, then direct, doubling, pieces.
Row row_of(size_t bytes, const std::vector<double>& times, Order order = Order::kStream) {
    Row row{{.test = Test::kCollective, .order = order, .bytes = bytes, .collective = Collective::kAllreduce},
            {Reference::kDirect, Reference::kDoubling, Reference::kPieces},
            {}};
    for (const double time : times) {
        row.figures.emplace_back(metrics(Test::kCollective).size());
        row.figures.back()[headline(Test::kCollective)] = time;
    }
    return row;
}

std::string allreduce(const std::vector<Row>& rows) {
    const auto settings = tuned_settings(rows);
    REQUIRE(settings.size() == 1);
    CHECK(settings[0].first == "GPURUN_ALLREDUCE");
    return settings[0].second;
}

} // namespace

TEST_SUITE_BEGIN("tuning");

TEST_CASE("what gpurun chooses by itself stays while nothing is clearly faster") {
    CHECK(allreduce({row_of(8, {10, 9.8, 20, 30}), row_of(1024, {10, 11, 12, 10})}) == "auto");
    CHECK(allreduce({row_of(8, {10, 10, 10, 10})}) == "auto");
}

TEST_CASE("an algorithm is for the sizes at which it is faster, up to the largest that was measured") {
    CHECK(allreduce({row_of(8, {10, 5, 8, 30}), row_of(4096, {10, 6, 8, 20}), row_of(1 << 20, {100, 200, 150, 60})}) ==
          "direct:4K,pieces");
    CHECK(allreduce({row_of(8, {10, 5, 8, 30}), row_of(5000, {10, 12, 12, 20})}) == "direct:8,auto");
    CHECK(allreduce({row_of(8, {10, 20, 8, 30}), row_of(64, {10, 20, 8, 30})}) == "doubling");
}

TEST_CASE("a single size at which another algorithm is hardly faster is no change") {
    std::vector<Row> rows;
    for (const size_t bytes : {8, 64, 512, 4096})
        rows.push_back(
            row_of(bytes, bytes == 64 ? std::vector<double>{10, 5.3, 5, 9} : std::vector<double>{10, 5, 8, 9}));
    CHECK(allreduce(rows) == "direct");
}

TEST_CASE("order domains count alike") {
    CHECK(allreduce({row_of(8, {10, 5, 20, 20}), row_of(8, {10, 30, 20, 20}, Order::kHost)}) == "auto");
    CHECK(allreduce({row_of(8, {10, 5, 20, 20}), row_of(8, {10, 12, 20, 20}, Order::kHost)}) == "direct");
}

TEST_CASE("there are no more rules than a setting takes") {
    std::vector<Row> rows;
    for (size_t i = 0; i < 20; ++i)
        rows.push_back(
            row_of(size_t{8} << i, i % 2 == 0 ? std::vector<double>{10, 1, 5, 5} : std::vector<double>{10, 5, 1, 5}));
    const std::string rules = allreduce(rows);
    CHECK(std::count(rules.begin(), rules.end(), ',') < 8);
}

TEST_CASE("only what was measured by its algorithms has a setting, for shells in a line each") {
    Row plain = row_of(8, {10, 5, 20, 20});
    plain.against.clear();
    plain.figures.resize(1);
    CHECK(tuned_settings({plain}).empty());
    Row bcast = row_of(8, {10, 5, 20, 20});
    bcast.task.collective = Collective::kBcast;
    bcast.against = {Reference::kDirect, Reference::kTree, Reference::kPieces};
    const std::string text = text_tuned({row_of(8, {10, 5, 20, 20}), bcast});
    CHECK(text.find("export GPURUN_ALLREDUCE=direct\nexport GPURUN_BCAST=direct\n") != text.npos);
}
