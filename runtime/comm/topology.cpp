#include "comm/topology.hpp"

#include <algorithm>
#include <unordered_map>

namespace gpurun::comm {

int64_t Cartesian::ranks(int most) const {
    int64_t product = 1;
    for (const Dimension& each : dimensions_) {
        product *= each.size;
        if (product > most)
            return product;
    }
    return product;
}

std::vector<int> Cartesian::coordinates(Rank of) const {
    std::vector<int> coordinates(dimensions_.size());
    int rest = of.value;
    for (size_t i = dimensions_.size(); i-- > 0; rest /= dimensions_[i].size)
        coordinates[i] = rest % dimensions_[i].size;
    return coordinates;
}

std::optional<Rank> Cartesian::at(std::span<const int> coordinates) const {
    Rank rank{0};
    for (size_t i = 0; i < dimensions_.size(); ++i) {
        const auto& [size, periodic] = dimensions_[i];
        const bool inside = coordinates[i] >= 0 && coordinates[i] < size;
        if (!inside && !periodic)
            return std::nullopt;
        rank.value = rank.value * size + (coordinates[i] % size + size) % size;
    }
    return rank;
}

int Cartesian::shifted(Rank from, size_t dimension, int64_t steps) const {
    const auto& [size, periodic] = dimensions_[dimension];
    std::vector<int> coordinates = this->coordinates(from);
    const int64_t wanted = coordinates[dimension] + steps;
    if (!periodic && (wanted < 0 || wanted >= size))
        return kProcNull;
    coordinates[dimension] = static_cast<int>((wanted % size + size) % size);
    return at(coordinates)->value;
}

Cartesian Cartesian::with(std::span<const bool> kept) const {
    std::vector<Dimension> dimensions;
    for (size_t i = 0; i < dimensions_.size(); ++i)
        if (kept[i])
            dimensions.push_back(dimensions_[i]);
    return Cartesian(std::move(dimensions));
}

// What is sent to the neighbour before a rank comes there from the one behind.
Topology::Topology(Cartesian grid, Rank self) : grid_(std::move(grid)) {
    for (size_t i = 0; i < grid_->dimensions().size(); ++i) {
        const int backwards = static_cast<int>(2 * i), forwards = backwards + 1;
        const int before = grid_->shifted(self, i, -1), behind = grid_->shifted(self, i, 1);
        sources_.insert(sources_.end(), {{before, forwards}, {behind, backwards}});
        destinations_.insert(destinations_.end(), {{before, backwards}, {behind, forwards}});
    }
}

Topology::Topology(std::span<const int> sources, std::span<const int> destinations) {
    const auto add = [](std::vector<Neighbour>& neighbours, std::span<const int> peers) {
        std::unordered_map<int, int> met;
        for (const int each : peers)
            neighbours.push_back({each, met[each]++});
    };
    add(sources_, sources);
    add(destinations_, destinations);
}

namespace {

std::vector<int> divisors_of(int number) {
    std::vector<int> low, high;
    for (int each = 1; each <= number / each; ++each)
        if (number % each == 0) {
            low.push_back(each);
            if (each != number / each)
                high.push_back(number / each);
        }
    low.insert(low.end(), high.rbegin(), high.rend());
    return low;
}

// Whether the product of `count` such factors can be so large.
bool can_reach(int number, int factor, size_t count) {
    int64_t product = 1;
    for (size_t i = 0; i < count && product < number && factor > 1; ++i)
        product *= factor;
    return product >= number;
}

// In descending order, none larger than `most`. `divisors` are those of `number` and more, ascending.
bool split_into_factors(int number, std::span<int> factors, int most, const std::vector<int>& divisors) {
    if (factors.empty())
        return number == 1;
    for (const int each : divisors) {
        if (each > std::min(number, most))
            return false;
        if (number % each != 0 || !can_reach(number, each, factors.size()))
            continue;
        factors[0] = each;
        if (split_into_factors(number / each, factors.subspan(1), each, divisors))
            return true;
    }
    return false;
}

} // namespace

bool choose_dimensions(int ranks, std::span<int> dimensions) {
    int rest = ranks;
    for (const int each : dimensions) {
        if (each != 0 && rest % each != 0)
            return false;
        rest /= std::max(each, 1);
    }
    std::vector<int> factors(static_cast<size_t>(std::count(dimensions.begin(), dimensions.end(), 0)));
    if (!split_into_factors(rest, factors, rest, divisors_of(rest)))
        return false;
    auto next = factors.begin();
    for (int& each : dimensions)
        if (each == 0)
            each = *next++;
    return true;
}

} // namespace gpurun::comm
