#include "cpu_list.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <charconv>

namespace gpurun::launcher {

namespace {

// More than any machine has, and few enough to be listed.
constexpr int kHighest = 65535;

std::optional<int> parse_number(std::string_view text) {
    int number = -1;
    const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc{} || stop != text.data() + text.size() || number < 0 || number > kHighest)
        return std::nullopt;
    return number;
}

} // namespace

std::string format_cpus(const std::vector<int>& cpus) {
    std::vector<int> sorted = cpus;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    std::string text;
    for (size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
        for (end = begin + 1; end < sorted.size() && sorted[end] == sorted[end - 1] + 1;)
            ++end;
        text += text.empty() ? "" : ",";
        text += std::to_string(sorted[begin]);
        if (end > begin + 1)
            text += base::format("-{}", sorted[end - 1]);
    }
    return text;
}

std::optional<Range> parse_range(std::string_view text) {
    const size_t dash = std::min(text.find('-'), text.size());
    const auto first = parse_number(text.substr(0, dash));
    const auto last = dash == text.size() ? first : parse_number(text.substr(dash + 1));
    if (!first || !last || *first > *last)
        return std::nullopt;
    return Range{*first, *last};
}

std::optional<std::vector<int>> parse_cpus(std::string_view text, char separator) {
    std::vector<int> cpus;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(separator, begin), text.size());
        const auto range = parse_range(text.substr(begin, end - begin));
        if (!range)
            return std::nullopt;
        for (int cpu = range->first; cpu <= range->last; ++cpu)
            cpus.push_back(cpu);
        begin = end + 1;
    }
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return cpus;
}

} // namespace gpurun::launcher
