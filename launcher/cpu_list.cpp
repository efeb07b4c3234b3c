#include "cpu_list.hpp"

#include "base/format.hpp"
#include "ranges.hpp"

#include <algorithm>

namespace gpurun::launcher {

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

std::optional<std::vector<int>> parse_cpus(std::string_view text, char separator) {
    const auto ranges = parse_ranges(text, separator);
    if (!ranges)
        return std::nullopt;
    std::vector<int> cpus;
    for (const Range& range : *ranges)
        for (int cpu = range.first; cpu <= range.last; ++cpu)
            cpus.push_back(cpu);
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return cpus;
}

} // namespace gpurun::launcher
