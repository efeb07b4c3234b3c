// The last line of a stream.
#include "last_line.hpp"
#include "support/unit.hpp"

namespace gpurun::test::last_line {

using namespace launcher;

namespace {

std::string last_of(std::string_view text, size_t piece = SIZE_MAX) {
    LastLine last;
    for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
        last.feed(text.substr(0, piece));
    return last.text();
}

} // namespace

TEST_SUITE_BEGIN("last line");

TEST_CASE("the last line counts, with an end or without, in whatever pieces it came") {
    for (const size_t piece : {size_t{1}, size_t{3}, SIZE_MAX}) {
        CHECK(last_of("first\nout of memory\n", piece) == "out of memory");
        CHECK(last_of("first\nout of memory", piece) == "out of memory");
        CHECK(last_of("only", piece) == "only");
        CHECK(last_of("", piece).empty());
    }
}

TEST_CASE("blank lines behind it do not hide it") {
    CHECK(last_of("why\n\n  \t\r\n\n") == "why");
    CHECK(last_of("\n\n \n").empty());
}

TEST_CASE("nothing in it disturbs a terminal") {
    CHECK(last_of("\033[1;31merror:\033[0m\tbad\a\n") == "error: bad ");
    CHECK(last_of("10%\r50%\r99%\n") == "99%");
    CHECK(last_of("cut short\033[") == "cut short");
    CHECK(last_of("cut short\033") == "cut short");
    CHECK(last_of("\033[2J\n") == "");
}

TEST_CASE("of a long line its end is kept, and no character is cut") {
    const std::string shown = last_of("x\n" + std::string(100'000, 'y') + "end\n");
    CHECK(shown.size() == LastLine::kLongest + 3);
    CHECK(shown.starts_with("...yyy"));
    CHECK(shown.ends_with("yend"));
    std::string text;
    for (int i = 0; i < 1000; ++i)
        text += "\u20ac";
    const std::string euros = last_of(text + "x");
    CHECK(euros.starts_with("...\u20ac"));
}

TEST_CASE("a stream of any length costs no more than its last lines") {
    LastLine last;
    for (int line = 0; line < 100'000; ++line)
        last.feed("line " + std::to_string(line) + "\n");
    CHECK(last.text() == "line 99999");
}

TEST_SUITE_END();

} // namespace gpurun::test::last_line
