// Statistics, and from samples to figures.
#include "figures.hpp"
#include "statistics.hpp"

#include <doctest/doctest.h>

#include <numeric>

using namespace gpurun::bench;

namespace {

Samples samples(std::vector<double> first, std::vector<double> second = {}, std::vector<double> third = {}) {
    return {std::move(first), std::move(second), std::move(third)};
}

Task task(Test test, size_t bytes, int window = 1) { return {.test = test, .bytes = bytes, .window = window}; }

} // namespace

TEST_SUITE_BEGIN("figures");

TEST_CASE("the median is in the middle, in any order of samples") {
    CHECK(median({}) == 0);
    CHECK(median({3}) == 3);
    CHECK(median({9, 1, 5}) == 5);
    CHECK(median({4, 1, 3, 2}) == 2.5);
}

TEST_CASE("a percentile is a sample that was taken") {
    std::vector<double> hundred(100);
    std::iota(hundred.rbegin(), hundred.rend(), 1.0);
    CHECK(percentile(hundred, 0.99) == 99);
    CHECK(percentile(hundred, 1) == 100);
    CHECK(percentile(hundred, 0) == 1);
    CHECK(percentile({7, 3}, 0.99) == 7);
    CHECK(percentile({}, 0.99) == 0);
    CHECK(smallest({7, 3, 5}) == 3);
    CHECK(smallest({}) == 0);
}

TEST_CASE("each test has a figure for each of its metrics, also without samples") {
    for (Test test : {Test::kLatency, Test::kBandwidth, Test::kBidirectional, Test::kRate, Test::kExchange,
                      Test::kCollective, Test::kOverlap, Test::kCall, Test::kFirst, Test::kLoan}) {
        const auto none = figures(task(test, 8), {samples({})});
        CHECK(none.size() == metrics(test).size());
        CHECK(headline(test) < none.size());
        for (double figure : none)
            CHECK(figure == 0);
    }
}

TEST_CASE("an exchange has its time, and that of its calls, and less is better") {
    Samples one = samples({10, 20, 30});
    one[1] = {4, 5, 6};
    const auto found = figures(task(Test::kExchange, 8, 2), {one});
    CHECK(found[0] == 20);
    CHECK(found[1] == 30);
    CHECK(found[2] == 5);
    CHECK(headline(Test::kExchange) == 0);
    CHECK(ratio(Test::kExchange, 10, 20) == 2);
    CHECK_FALSE(is_nothing(task(Test::kExchange, 8, 2), {0.9, 1, 0}));
    CHECK(is_nothing(task(Test::kExchange, 8, 2), {0.7, 1, 0})); // four messages
}

TEST_CASE("a collective has its time, its calls' time, its rate and that on the bus, and less time is better") {
    Samples one = samples({10, 20, 30});
    one[1] = {4, 5, 6};
    Task all_reduce = task(Test::kCollective, 1000);
    all_reduce.ranks = 4;
    const auto found = figures(all_reduce, {one, samples({})}); // rank 0 has the samples of all
    REQUIRE(found.size() == 5);
    CHECK(found[0] == 20);
    CHECK(found[1] == 30);
    CHECK(found[2] == 5);
    CHECK(found[3] == doctest::Approx(5e7));
    CHECK(found[4] == doctest::Approx(7.5e7));
    CHECK(headline(Test::kCollective) == 0);
    CHECK(ratio(Test::kCollective, 10, 20) == 2);
}

TEST_CASE("what has no bytes has no rate") {
    Task barrier = task(Test::kCollective, 0);
    barrier.collective = Collective::kBarrier;
    const auto found = figures(barrier, {samples({10})});
    CHECK(found[0] == 10);
    CHECK(printed(metrics(Test::kCollective)[3], found[3]) == "-");
}

TEST_CASE("the latency of several pairs is that of all their messages") {
    const auto found = figures(task(Test::kLatency, 1000), {samples({1, 2}), samples({4})});
    CHECK(found[0] == 2);
    CHECK(found[1] == 1);
    CHECK(found[2] == 4);
    CHECK(found[3] == doctest::Approx(1000 / 2e-6));
}

TEST_CASE("rates of several pairs are added up, each by its own median") {
    const auto one = figures(task(Test::kRate, 8, 64), {samples({32, 64, 128})});
    CHECK(one[1] == doctest::Approx(1e6));
    const auto two = figures(task(Test::kRate, 8, 64), {samples({64}), samples({32})});
    CHECK(two[1] == doctest::Approx(3e6));
    CHECK(figures(task(Test::kBandwidth, 8, 64), {samples({64})})[1] == doctest::Approx(8e6));
    CHECK(figures(task(Test::kBidirectional, 8, 64), {samples({64})})[1] == doctest::Approx(16e6));
}

TEST_CASE("what is hidden is the share of the shorter that cost no time, between nothing and all") {
    const auto hidden = [](double transfer, double compute, double both) {
        return figures(task(Test::kOverlap, 8), {samples({transfer}, {compute}, {both})})[3];
    };
    CHECK(hidden(10, 10, 20) == 0);
    CHECK(hidden(10, 10, 10) == 1);
    CHECK(hidden(10, 10, 15) == doctest::Approx(0.5));
    CHECK(hidden(10, 40, 45) == doctest::Approx(0.5));
    CHECK(hidden(10, 10, 30) == 0);
    CHECK(hidden(10, 10, 9) == 1);
}

TEST_CASE("a ratio above one is better than the reference, whatever is measured") {
    CHECK(ratio(Test::kLatency, 10, 5) == doctest::Approx(0.5));
    CHECK(ratio(Test::kCall, 10, 20) == doctest::Approx(2));
    CHECK(ratio(Test::kBandwidth, 10, 20) == doctest::Approx(0.5));
    CHECK(ratio(Test::kOverlap, 0.5, 0) == 0); // cannot be said
    CHECK(ratio(Test::kLatency, 10, 0) == 0);
}
