// CPUs in the form that people and Linux write.
#include "cpu_list.hpp"
#include "support/unit.hpp"

#include <optional>

namespace gpurun::test::cpu_list {

using namespace launcher;

namespace {

using Cpus = std::vector<int>;

} // namespace

TEST_SUITE_BEGIN("CPU lists");

TEST_CASE("neighbours become a range, in whatever order they come") {
    CHECK(format_cpus({}) == "");
    CHECK(format_cpus({3}) == "3");
    CHECK(format_cpus({16, 0, 1, 2, 3, 17, 9, 9}) == "0-3,9,16-17");
}

TEST_CASE("a list is read as it is written") {
    CHECK(parse_cpus("0-3,9,16-17", ',') == Cpus{0, 1, 2, 3, 9, 16, 17});
    CHECK(parse_cpus("9+0-1+1", '+') == Cpus{0, 1, 9});
}

TEST_CASE("what is no list is refused") {
    for (const char* text : {"", ",", "1,", ",1", "a", "1-", "-1", "2-1", "1--2", "1-2-3", " 1", "0x1", "1+2", "65536",
                             "99999999999999999999", "0-4294967296"}) {
        CAPTURE(text);
        CHECK(parse_cpus(text, ',') == std::nullopt);
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::cpu_list
