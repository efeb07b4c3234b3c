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

// The length of the first line with its end, or of all of `text` if no line ends in it.
inline size_t first_line(std::string_view text) {
    const auto* const end = std::find_if(text.begin(), text.end(), ends_line);
    const auto before = static_cast<size_t>(end - text.begin());
    if (before == text.size())
        return before;
    return before + (text.substr(before).starts_with("\r\n") ? 2 : 1);
}

// The length of all lines that end in `text`.
inline size_t whole_lines(std::string_view text) {
    return static_cast<size_t>(text.rend() - std::find_if(text.rbegin(), text.rend(), ends_line));
}

} // namespace gpurun::launcher
