// What stands before lines.
#include "line_tag.hpp"
#include "support/unit.hpp"

#include <regex>

namespace gpurun::test::line_tag {

using namespace launcher;

namespace {

std::string marked(const LineTag& tag, std::string_view text, bool begins_line = true) {
    std::string result;
    tag.mark(text, begins_line, result);
    return result;
}

} // namespace

TEST_SUITE_BEGIN("line tag");

TEST_CASE("every line that begins gets the rank, and no other") {
    const LineTag tag(7, {true, false, false});
    CHECK(marked(tag, "a\nb\n") == "[7] a\n[7] b\n");
    CHECK(marked(tag, "a\n\nb") == "[7] a\n[7] \n[7] b");
    CHECK(marked(tag, "rest\nnext", false) == "rest\n[7] next");
    CHECK(marked(tag, "") == "");
    CHECK(marked(tag, std::string_view("\0\xff\n\0", 4)) == std::string("[7] \0\xff\n[7] \0", 12));
}

TEST_CASE("a line that a carriage return ends gets the rank, and a carriage return before a line feed ends none") {
    const LineTag tag(7, {true, false, false});
    CHECK(marked(tag, "10%\r20%\r") == "[7] 10%\r[7] 20%\r");
    CHECK(marked(tag, "a\r\nb\r\n") == "[7] a\r\n[7] b\r\n");
    CHECK(marked(tag, "\n20%\r", false) == "\n[7] 20%\r");
}

TEST_CASE("a tag knows how many columns of a line it takes") {
    for (const bool colour : {false, true}) {
        CHECK(LineTag(7, {false, false, colour}).columns() == 0);
        CHECK(LineTag(7, {true, false, colour}).columns() == 4);
        CHECK(LineTag(255, {true, false, colour}).columns() == 6);
    }
    const LineTag timed(12, {true, true, false});
    CHECK(timed.columns() == marked(timed, "\n").size() - 1);
}

TEST_CASE("in colour, the rank has one and the line has not") {
    const LineTag tag(1, {true, false, true});
    CHECK(std::regex_match(marked(tag, "a\n"), std::regex("\033\\[[0-9]+m\\[1\\]\033\\[0m a\n")));
    CHECK(marked(LineTag(2, {true, false, true}), "a\n").substr(0, 5) != marked(tag, "a\n").substr(0, 5));
}

TEST_CASE("the time stands before the rank") {
    const std::string time = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} ";
    CHECK(std::regex_match(marked(LineTag(3, {true, true, false}), "a\n"), std::regex(time + "\\[3\\] a\n")));
    CHECK(std::regex_match(marked(LineTag(3, {false, true, false}), "a\n"), std::regex(time + "a\n")));
}

TEST_CASE("the host stands behind the rank") {
    const LineTag tag(3, {true, false, false, "node7"});
    CHECK(marked(tag, "a\n") == "[3 node7] a\n");
    CHECK(tag.columns() == 10);
}

TEST_CASE("without a style there is no tag") { CHECK_FALSE(static_cast<bool>(LineTag(3, {}))); }

TEST_SUITE_END();

} // namespace gpurun::test::line_tag
