#include "tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace gpurun::bench {

namespace {

constexpr Reference kOfAllreduce[] = {Reference::kDirect, Reference::kDoubling, Reference::kPieces};
constexpr Reference kOfReduce[] = {Reference::kDirect, Reference::kPieces};
constexpr Reference kOfBcast[] = {Reference::kDirect, Reference::kTree, Reference::kPieces};

constexpr size_t kMostRules = 8; // that a setting takes
// What another algorithm has to gain at a size, and a change between two sizes altogether: runs of the same algorithm
// differ by as much.
constexpr double kWorthChoosing = 1.03;
constexpr double kWorthChange = 1.05;

// The logarithms of what each choice takes, over all order domains; gpurun's own choice first.
using Costs = std::vector<double>;
using BySize = std::map<size_t, Costs>;

struct Measured {
    std::vector<Reference> algorithms; // of the choices behind the first
    BySize sizes;
};

Measured collect(const std::vector<Row>& rows, Collective collective) {
    Measured all;
    for (const Row& row : rows) {
        if (row.task.test != Test::kCollective || row.task.collective != collective)
            continue;
        all.algorithms.clear();
        std::vector<double> times{row.headline_of(0)};
        for (size_t i = 0; i < row.against.size(); ++i)
            if (is_algorithm(row.against[i])) {
                all.algorithms.push_back(row.against[i]);
                times.push_back(row.headline_of(i + 1));
            }
        Costs& costs = all.sizes[row.task.bytes];
        costs.resize(times.size());
        for (size_t i = 0; i < times.size(); ++i)
            costs[i] += std::log(times[i] * (i == 0 ? 1 : kWorthChoosing));
    }
    return all;
}

size_t place_of_least(const Costs& costs) {
    return static_cast<size_t>(std::min_element(costs.begin(), costs.end()) - costs.begin());
}

// A choice for each size, so that what all take, and the changes between them, cost least.
std::vector<size_t> cheapest(const BySize& sizes, size_t choices, double change) {
    std::vector<std::vector<size_t>> before; // by size and choice: the choice of the size before that leads there
    Costs totals(choices, 0);
    for (const auto& [bytes, costs] : sizes) {
        const size_t best = place_of_least(totals);
        const double changed = totals[best] + change;
        std::vector<size_t> from(choices);
        Costs next(choices);
        for (size_t i = 0; i < choices; ++i) {
            from[i] = totals[i] <= changed ? i : best;
            next[i] = std::min(totals[i], changed) + costs[i];
        }
        totals = std::move(next);
        before.push_back(std::move(from));
    }
    std::vector<size_t> chosen(sizes.size());
    size_t last = place_of_least(totals);
    for (size_t i = sizes.size(); i-- > 0;) {
        chosen[i] = last;
        last = before[i][last];
    }
    return chosen;
}

std::string size_text(size_t bytes) {
    for (const auto& [shift, letter] : {std::pair{30, "G"}, {20, "M"}, {10, "K"}})
        if (bytes != 0 && bytes % (size_t{1} << shift) == 0)
            return std::to_string(bytes >> shift) + letter;
    return std::to_string(bytes);
}

// Each but the last with the largest size that was measured.
std::vector<std::string> rules_of(const Measured& measured, const std::vector<size_t>& chosen) {
    std::vector<std::string> rules;
    size_t i = 0;
    for (auto size = measured.sizes.begin(); size != measured.sizes.end(); ++size, ++i) {
        const bool last = i + 1 == chosen.size();
        if (!last && chosen[i + 1] == chosen[i])
            continue;
        const std::string algorithm = chosen[i] == 0 ? "auto" : name(measured.algorithms[chosen[i] - 1]);
        rules.push_back(last ? algorithm : algorithm + ":" + size_text(size->first));
    }
    return rules;
}

std::string rules_of(const Measured& measured) {
    const size_t choices = measured.algorithms.size() + 1;
    std::vector<std::string> rules;
    double change = std::log(kWorthChange);
    do {
        rules = rules_of(measured, cheapest(measured.sizes, choices, change));
        change *= 2;
    } while (rules.size() > kMostRules);
    std::string text;
    for (const std::string& each : rules)
        text += (text.empty() ? "" : ",") + each;
    return text;
}

const char* setting_of(Collective collective) {
    return collective == Collective::kAllreduce ? "GPURUN_ALLREDUCE"
           : collective == Collective::kReduce  ? "GPURUN_REDUCE"
                                                : "GPURUN_BCAST";
}

} // namespace

std::span<const Reference> algorithms_of(Collective collective) {
    switch (collective) {
    case Collective::kAllreduce: return kOfAllreduce;
    case Collective::kReduce: return kOfReduce;
    case Collective::kBcast: return kOfBcast;
    default: return {};
    }
}

bool is_algorithm(Reference reference) { return reference >= Reference::kDirect; }

std::vector<std::pair<std::string, std::string>> tuned_settings(const std::vector<Row>& rows) {
    std::vector<std::pair<std::string, std::string>> settings;
    for (const Collective each : {Collective::kAllreduce, Collective::kReduce, Collective::kBcast}) {
        const Measured measured = collect(rows, each);
        if (!measured.algorithms.empty())
            settings.emplace_back(setting_of(each), rules_of(measured));
    }
    return settings;
}

std::string text_tuned(const std::vector<Row>& rows) {
    std::string text = "\n# best here, with so many ranks; auto is what gpurun chooses by itself\n";
    for (const auto& [setting, value] : tuned_settings(rows))
        text += fmt::format("export {}={}\n", setting, value);
    return text;
}

} // namespace gpurun::bench
