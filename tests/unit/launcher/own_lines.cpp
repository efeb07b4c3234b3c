// How gpurun's own lines look.
#include "own_lines.hpp"
#include "support/unit.hpp"

namespace gpurun::test::own_lines {

using namespace launcher;

TEST_SUITE_BEGIN("own lines");

TEST_CASE("each line begins with gpurun's name and is ended") {
    CHECK(as_own_lines("a") == "gpurun: a\n");
    CHECK(as_own_lines("a\n") == "gpurun: a\n");
    CHECK(as_own_lines("a\n  b\n\nc") == "gpurun: a\ngpurun:   b\ngpurun: \ngpurun: c\n");
    CHECK(as_own_lines("") == "gpurun: \n");
}

TEST_SUITE_END();

} // namespace gpurun::test::own_lines
