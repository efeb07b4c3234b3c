// Parts of a piece of memory: no two overlap, and what is given back is one again.
#include "transfer/pool/allotment.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

using namespace gpurun::transfer;

namespace {

constexpr size_t kUnit = Allotment::kUnit;
constexpr size_t kUnits = 64;

size_t units(size_t bytes) { return (bytes + kUnit - 1) / kUnit; }

} // namespace

TEST_SUITE_BEGIN("allotment");

TEST_CASE("all of it can be taken, in parts of whole units, and no more") {
    Allotment memory(kUnits * kUnit);
    for (size_t i = 0; i < kUnits; ++i)
        CHECK(memory.take(i % 2 == 0 ? 1 : kUnit) == i * kUnit);
    CHECK_FALSE(memory.take(1).has_value());
    CHECK(memory.left() == 0);
    memory.give_back(5 * kUnit, kUnit);
    CHECK(memory.left() == kUnit);
    CHECK_FALSE(memory.take(kUnit + 1).has_value());
    CHECK(memory.take(kUnit) == 5 * kUnit);
}

TEST_CASE("what is larger than all is refused, and what is just as large is not") {
    Allotment memory(kUnits * kUnit);
    CHECK_FALSE(memory.take(kUnits * kUnit + 1).has_value());
    CHECK(memory.left() == kUnits * kUnit);
    CHECK(memory.take(kUnits * kUnit) == 0);
    memory.give_back(0, kUnits * kUnit);
    CHECK(memory.take(kUnits * kUnit - kUnit + 1) == 0); // the same, in whole units
    CHECK_FALSE(memory.take(1).has_value());
}

TEST_CASE("neighbours become one part again, in whatever order they are given back") {
    std::vector<size_t> order{0, 1, 2, 3};
    do {
        Allotment memory(4 * kUnit);
        for (size_t i = 0; i < 4; ++i)
            REQUIRE(memory.take(kUnit) == i * kUnit);
        for (size_t i = 0; i < 4; ++i) {
            memory.give_back(order[i] * kUnit, kUnit);
            CHECK(memory.take(4 * kUnit).has_value() == (i == 3));
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("parts that do not touch stay apart") {
    Allotment memory(5 * kUnit);
    for (size_t i = 0; i < 5; ++i)
        REQUIRE(memory.take(kUnit).has_value());
    memory.give_back(0, kUnit);
    memory.give_back(2 * kUnit, kUnit);
    memory.give_back(4 * kUnit, kUnit);
    CHECK_FALSE(memory.take(2 * kUnit).has_value()); // there is room for three, but not in one
    memory.give_back(3 * kUnit, kUnit);
    CHECK(memory.take(3 * kUnit) == 2 * kUnit);
    CHECK(memory.take(kUnit) == 0);
}

TEST_CASE("parts that come and go at random never overlap, and nothing is lost") {
    for (unsigned seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        Allotment memory(kUnits * kUnit);
        std::map<size_t, size_t> taken;        // bytes, by offset
        const auto fits = [&](size_t needed) { // by looking at every gap
            size_t end = 0;
            for (const auto& [offset, bytes] : taken) {
                if (offset - end >= needed * kUnit)
                    return true;
                end = offset + units(bytes) * kUnit;
            }
            return kUnits * kUnit - end >= needed * kUnit;
        };
        for (int step = 0; step < 2000; ++step) {
            const size_t bytes = 1 + random() % (10 * kUnit);
            if (random() % 2 == 0) {
                const bool expected = fits(units(bytes));
                const auto offset = memory.take(bytes);
                REQUIRE(offset.has_value() == expected);
                if (!offset)
                    continue;
                REQUIRE(*offset % kUnit == 0);
                REQUIRE(*offset + bytes <= kUnits * kUnit);
                const auto next = taken.lower_bound(*offset);
                REQUIRE((next == taken.end() || *offset + bytes <= next->first));
                if (next != taken.begin()) {
                    const auto before = std::prev(next);
                    REQUIRE(before->first + before->second <= *offset);
                }
                taken.emplace(*offset, bytes);
            } else if (!taken.empty()) {
                const auto part = std::next(taken.begin(), static_cast<ptrdiff_t>(random() % taken.size()));
                memory.give_back(part->first, part->second);
                taken.erase(part);
            }
        }
        for (const auto& [offset, bytes] : taken)
            memory.give_back(offset, bytes);
        CHECK(memory.take(kUnits * kUnit) == 0);
    }
}
