#include "ranges.hpp"

#include <algorithm>
#include <charconv>

namespace gpurun::launcher {

namespace {

// More than any machine has of anything, and few enough to be listed.
constexpr int kHighest = 65535;

std::optional<int> parse_number(std::string_view text) {
    int number = -1;
    const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc{} || stop != text.data() + text.size() || number < 0 || number > kHighest)
        return std::nullopt;
    return number;
}

} // namespace

std::optional<Range> parse_range(std::string_view text) {
    const size_t dash = std::min(text.find('-'), text.size());
    const auto first = parse_number(text.substr(0, dash));
    const auto last = dash == text.size() ? first : parse_number(text.substr(dash + 1));
    if (!first || !last || *first > *last)
        return std::nullopt;
    return Range{*first, *last};
}

std::optional<std::vector<Range>> parse_ranges(std::string_view text, char separator) {
    std::vector<Range> ranges;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(separator, begin), text.size());
        const auto range = parse_range(text.substr(begin, end - begin));
        if (!range)
            return std::nullopt;
        ranges.push_back(*range);
        begin = end + 1;
    }
    return ranges;
}

} // namespace gpurun::launcher
