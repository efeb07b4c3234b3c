#include "sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gpurun::bench {

namespace {

constexpr std::string_view kUnits = "KMG";
constexpr uint64_t kLargest = uint64_t{1} << 40; // more than any device has, and far from an overflow

std::optional<size_t> parse_size(std::string_view text) {
    uint64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, number);
    if (failed != std::errc() || number == 0 || number > kLargest)
        return std::nullopt;
    if (stop == end)
        return number;
    const size_t unit = kUnits.find(*stop);
    if (unit == std::string_view::npos || stop + 1 != end)
        return std::nullopt;
    const auto shift = 10 * (unit + 1);
    if (number > kLargest >> shift)
        return std::nullopt;
    return number << shift;
}

void add(std::vector<size_t>& sizes, size_t size) {
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end())
        sizes.push_back(size);
}

bool add_item(std::vector<size_t>& sizes, std::string_view item) {
    const size_t dots = item.find("..");
    const auto low = parse_size(item.substr(0, dots));
    const auto high = dots == std::string_view::npos ? low : parse_size(item.substr(dots + 2));
    if (!low || !high || *low > *high)
        return false;
    add(sizes, *low);
    for (size_t size = 1; size < *high; size *= 4)
        if (size > *low)
            add(sizes, size);
    add(sizes, *high);
    return true;
}

} // namespace

Or<std::vector<size_t>> parse_sizes(const std::string& text) {
    std::vector<size_t> sizes;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const std::string item = text.substr(begin, end - begin);
        if (!add_item(sizes, item))
            return Refusal{2, fmt::format("--sizes: cannot read '{}'; write sizes from 1 to 1024G and ranges, smaller "
                                          "end first, as in 8,64K..4M",
                                          item)};
        begin = end + 1;
    }
    return sizes;
}

std::string short_size(double bytes) {
    size_t unit = 0;
    for (; bytes >= 1024 && unit < kUnits.size(); ++unit)
        bytes /= 1024;
    const std::string number = fmt::format("{:.4g}", bytes);
    return unit == 0 ? number : number + kUnits[unit - 1];
}

} // namespace gpurun::bench
