// Where values lie in a drawing.
#include "axis.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace gpurun::bench;

namespace {

using Marks = std::vector<double>;

Marks marks(Spacing spacing, double low, double high) { return Axis(spacing, low, high, 0, 100).marks(); }

bool equal(const Marks& got, const Marks& wanted) {
    bool same = got.size() == wanted.size();
    for (size_t i = 0; same && i < got.size(); ++i)
        same = got[i] == doctest::Approx(wanted[i]);
    return same;
}

} // namespace

TEST_SUITE_BEGIN("axis");

TEST_CASE("an axis spans what it shows, in whichever direction it runs") {
    for (Spacing spacing : {Spacing::kLinear, Spacing::kDecades, Spacing::kBinary})
        for (double low : {1e-6, 0.02, 1.0, 7.0, 8.0, 1e9})
            for (double factor : {1.0, 1.001, 2.0, 37.0, 1e5, 1e12}) {
                const Axis axis(spacing, low, low * factor, 300, 10);
                CHECK(axis.place(low) <= 300.001);
                CHECK(axis.place(low * factor) >= 9.999);
                CHECK(axis.place(low * factor) <= axis.place(low));
                CHECK(axis.marks().size() >= 2);
                CHECK(axis.marks().size() <= 12);
                CHECK(axis.place(axis.marks().front()) == doctest::Approx(300));
                CHECK(axis.place(axis.marks().back()) == doctest::Approx(10));
            }
}

TEST_CASE("logarithmic axes give equal factors equal room") {
    const Axis axis(Spacing::kDecades, 1, 10000, 0, 400);
    CHECK(axis.place(10) == doctest::Approx(100));
    CHECK(axis.place(1000) == doctest::Approx(300));
}

TEST_CASE("sizes are marked at powers of two") {
    CHECK(equal(marks(Spacing::kBinary, 8, 64), {8, 16, 32, 64}));
    CHECK(equal(marks(Spacing::kBinary, 8, 8), {8, 16}));
    CHECK(marks(Spacing::kBinary, 8, 256.0 * 1024 * 1024).size() <= 10);
}

TEST_CASE("decades are marked at ones, twos and fives while there is room") {
    CHECK(equal(marks(Spacing::kDecades, 3, 30), {2, 5, 10, 20, 50}));
    CHECK(equal(marks(Spacing::kDecades, 10, 10), {10, 20}));
    CHECK(equal(marks(Spacing::kDecades, 0.5, 50000), {0.1, 1, 10, 100, 1000, 10000, 100000}));
}

TEST_CASE("linear axes begin at nothing") {
    CHECK(equal(marks(Spacing::kLinear, 30, 100), {0, 20, 40, 60, 80, 100}));
    CHECK(equal(marks(Spacing::kLinear, 0, 0), {0, 0.2}));
}
