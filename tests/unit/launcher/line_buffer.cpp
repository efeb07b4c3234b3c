// Cutting at the ends of lines.
#include "line_buffer.hpp"
#include "support/unit.hpp"

#include <vector>

namespace gpurun::test::line_buffer {

using namespace launcher;

namespace {

struct Collector {
    LineBuffer buffer;
    std::vector<std::string> pieces;

    void feed(std::string_view chunk) {
        buffer.feed(chunk, [this](std::string_view piece) { pieces.emplace_back(piece); });
    }
    void finish() {
        buffer.finish([this](std::string_view piece) { pieces.emplace_back(piece); });
    }
    std::string all() const {
        std::string text;
        for (const std::string& piece : pieces)
            text += piece;
        return text;
    }
};

} // namespace

TEST_SUITE_BEGIN("line buffer");

TEST_CASE("a line passes once it is complete") {
    Collector lines;
    lines.feed("be");
    lines.feed("gin");
    CHECK(lines.all().empty());
    lines.feed("ning\nnext");
    CHECK(lines.all() == "beginning\n");
    lines.feed("\n");
    CHECK(lines.all() == "beginning\nnext\n");
}

TEST_CASE("a carriage return ends a line, too, also where the line feed behind it comes later") {
    Collector lines;
    lines.feed("10%\r20%");
    CHECK(lines.pieces == std::vector<std::string>{"10%\r"});
    lines.feed("\r");
    CHECK(lines.pieces == std::vector<std::string>{"10%\r", "20%", "\r"});
    lines.feed("done\r\nnext");
    CHECK(lines.all() == "10%\r20%\rdone\r\n");
    lines.feed("\r");
    lines.feed("\n");
    CHECK(lines.all() == "10%\r20%\rdone\r\nnext\r\n");
}

TEST_CASE("a last line without end passes when the stream ends, unchanged") {
    Collector lines;
    lines.feed("whole\npart");
    lines.finish();
    CHECK(lines.all() == "whole\npart");
    lines.finish();
    CHECK(lines.all() == "whole\npart");
}

TEST_CASE("any bytes pass, whatever the pieces in which they came") {
    std::string sent;
    for (int i = 0; i < 10'000; ++i)
        sent += static_cast<char>(i * i % 251 == 0 ? '\n' : i * 31);
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}}) {
        Collector lines;
        for (size_t at = 0; at < sent.size(); at += piece)
            lines.feed(std::string_view(sent).substr(at, piece));
        lines.finish();
        CHECK(lines.all() == sent);
    }
}

TEST_CASE("a line that is too long to keep passes in pieces") {
    Collector lines;
    const std::string part(LineBuffer::kLongestLine / 4, 'x');
    for (int i = 0; i < 3; ++i)
        lines.feed(part);
    CHECK(lines.pieces.empty());
    lines.feed(part);
    CHECK(lines.all().size() == LineBuffer::kLongestLine);
    lines.feed("end\n");
    CHECK(lines.pieces.back() == "end\n");
}

TEST_SUITE_END();

} // namespace gpurun::test::line_buffer
