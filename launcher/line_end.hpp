// Where lines end: behind a line feed, or behind a carriage return that no line feed follows. Progress bars print
// these.
//
// A carriage return at the end of what has come ends a line, too, because the next byte may come much later. A line
// feed that comes then belongs to the line before it. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace gpurun::launcher {

inline bool ends_line(char c) { return c == '\n' || c == '\r'; }

// Takes the first line with its end out of `text`, or all of it if no line ends in it.
inline std::string_view take_line(std::string_view& text) {
    const auto* const end = std::find_if(text.begin(), text.end(), ends_line);
    auto bytes = static_cast<size_t>(end - text.begin());
    if (bytes != text.size())
        bytes += text.substr(bytes).starts_with("\r\n") ? 2 : 1;
    const std::string_view line = text.substr(0, bytes);
    text.remove_prefix(bytes);
    return line;
}

// The length of all lines that end in `text`.
inline size_t whole_lines(std::string_view text) {
    return static_cast<size_t>(text.rend() - std::find_if(text.rbegin(), text.rend(), ends_line));
}

} // namespace gpurun::launcher
