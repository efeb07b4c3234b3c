// Numbers and ranges of them, as they are written.
#include "ranges.hpp"
#include "support/unit.hpp"

namespace gpurun::test::ranges {

using namespace launcher;

TEST_SUITE_BEGIN("ranges");

TEST_CASE("a number is a range of one") {
    CHECK(parse_range("7")->first == 7);
    CHECK(parse_range("7")->last == 7);
    CHECK(parse_range("3-5")->first == 3);
    CHECK(parse_range("3-5")->last == 5);
}

TEST_CASE("ranges stay as they are written, in their order") {
    const auto ranges = parse_ranges("9+0-1+1", '+');
    REQUIRE(ranges->size() == 3);
    CHECK((*ranges)[0].first == 9);
    CHECK((*ranges)[1].last == 1);
    CHECK((*ranges)[2].first == 1);
}

TEST_CASE("what is no range is refused, alone or among others") {
    for (const char* text : {"", "a", "1-", "-1", "2-1", "1--2", " 1", "65536", "99999999999999999999"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_range(text));
        CHECK_FALSE(parse_ranges(std::string("1,") + text, ','));
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::ranges
