#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace gpurun::bench {

double smallest(const std::vector<double>& samples) {
    return samples.empty() ? 0 : *std::min_element(samples.begin(), samples.end());
}

double median(std::vector<double> samples) {
    if (samples.empty())
        return 0;
    const auto middle = samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    if (samples.size() % 2 == 1)
        return *middle;
    return (*std::max_element(samples.begin(), middle) + *middle) / 2;
}

double percentile(std::vector<double> samples, double share) {
    if (samples.empty())
        return 0;
    const double rank = std::ceil(share * static_cast<double>(samples.size()));
    const auto index = std::clamp<ptrdiff_t>(static_cast<ptrdiff_t>(rank) - 1, 0, std::ssize(samples) - 1);
    std::nth_element(samples.begin(), samples.begin() + index, samples.end());
    return samples[static_cast<size_t>(index)];
}

} // namespace gpurun::bench
