// Sizes as people write them.
#include "sizes.hpp"

#include <doctest/doctest.h>

using namespace gpurun::bench;

namespace {

using Sizes = std::vector<size_t>;

Sizes sizes(const std::string& text) {
    const auto parsed = parse_sizes(text);
    REQUIRE_MESSAGE(std::holds_alternative<Sizes>(parsed), text);
    return std::get<Sizes>(parsed);
}

} // namespace

TEST_SUITE_BEGIN("sizes");

TEST_CASE("a list keeps its order, and units are powers of 1024") {
    CHECK(sizes("8") == Sizes{8});
    CHECK(sizes("1M,8,64K") == Sizes{1 << 20, 8, 64 << 10});
    CHECK(sizes("2G") == Sizes{size_t{2} << 30});
}

TEST_CASE("a range is its ends and the powers of four between them") {
    CHECK(sizes("8..300") == Sizes{8, 16, 64, 256, 300});
    CHECK(sizes("16..256") == Sizes{16, 64, 256});
    CHECK(sizes("5..5") == Sizes{5});
    CHECK(sizes("1..4") == Sizes{1, 4});
}

TEST_CASE("lists hold ranges, and no size twice") {
    CHECK(sizes("8,4..16,1K") == Sizes{8, 4, 16, 1024});
    CHECK(sizes("1K,1024") == Sizes{1024});
}

TEST_CASE("what is no size is refused by name") {
    for (const char* text : {"", ",", "8,", "0", "x", "8X", "8KB", "-1", "8..", "..8", "16..8", "8...9", "1.5K", " 8",
                             "1025G", "99999999999999999999"}) {
        const auto parsed = parse_sizes(text);
        REQUIRE_MESSAGE(std::holds_alternative<Refusal>(parsed), text);
        CHECK(std::get<Refusal>(parsed).exit_status == 2);
        CHECK(std::get<Refusal>(parsed).text.find("--sizes: cannot read '") == 0);
    }
    CHECK(sizes("1024G") == Sizes{size_t{1} << 40});
}

TEST_CASE("short sizes are as people write them") {
    CHECK(short_size(8) == "8");
    CHECK(short_size(65536) == "64K");
    CHECK(short_size(1.5 * 1024 * 1024) == "1.5M");
    CHECK(short_size(4.0 * (1 << 30)) == "4G");
}
