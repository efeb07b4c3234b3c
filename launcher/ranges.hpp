// Numbers as people and Linux write them: "7", "0-3,5".
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace gpurun::launcher {

// The bounds are inclusive.
struct Range {
    int first = 0;
    int last = 0;
};

// "7" or "3-5"; nothing if it is neither.
std::optional<Range> parse_range(std::string_view text);
// As they are written, one or more; nothing if one is none. `separator` stands between them.
std::optional<std::vector<Range>> parse_ranges(std::string_view text, char separator);

} // namespace gpurun::launcher
