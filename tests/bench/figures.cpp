#include "figures.hpp"

#include "collective.hpp"
#include "statistics.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gpurun::bench {

namespace {

constexpr double kLeastMessageUs = 0.2; // what a flag takes between two cores, and a clock to be read

constexpr Metric kLatency[] = {{"median_us", "median us", 1, 2},
                               {"min_us", "min us", 1, 2},
                               {"p99_us", "p99 us", 1, 2},
                               {"bytes_per_second", "bandwidth", 1e-9, kWithUnit}};
constexpr size_t kLoanFigures = 3; // of these: nothing moves, so there is no bandwidth
constexpr Metric kWindow[] = {{"median_us", "window us", 1, 2}, {"bytes_per_second", "bandwidth", 1e-9, kWithUnit}};
constexpr Metric kExchange[] = {
    {"median_us", "median us", 1, 2}, {"p99_us", "p99 us", 1, 2}, {"calls_us", "calls us", 1, 2}};
constexpr Metric kCollective[] = {{"median_us", "median us", 1, 2},
                                  {"p99_us", "p99 us", 1, 2},
                                  {"calls_us", "calls us", 1, 2},
                                  {"bytes_per_second", "bandwidth", 1e-9, kWithUnit},
                                  {"bus_bytes_per_second", "on the bus", 1e-9, kWithUnit}};
constexpr Metric kRate[] = {{"median_us", "window us", 1, 2}, {"messages_per_second", "messages/s", 1, 0}};
constexpr Metric kOverlap[] = {{"transfer_us", "transfer us", 1, 2},
                               {"compute_us", "compute us", 1, 2},
                               {"together_us", "both us", 1, 2},
                               {"hidden_fraction", "hidden %", 100, 1}};
constexpr Metric kCall[] = {
    {"send_median_us", "send us", 1, 3}, {"recv_median_us", "recv us", 1, 3}, {"both_median_us", "send+recv us", 1, 3}};

std::vector<double> together(const std::vector<Samples>& pairs, size_t which) {
    std::vector<double> all;
    for (const Samples& samples : pairs)
        all.insert(all.end(), samples[which].begin(), samples[which].end());
    return all;
}

// Each pair's own median decides: pairs need not be equally fast.
double messages_per_second(const Task& task, const std::vector<Samples>& pairs) {
    const double messages = task.window * (both_ways(task.test) ? 2 : 1);
    double sum = 0;
    for (const Samples& samples : pairs)
        if (const double us = median(samples[0]); us > 0)
            sum += messages / us * 1e6;
    return sum;
}

// Of the shorter of the two, how much took no time of its own. Noise may say more than all, or less than nothing.
double hidden(double transfer, double compute, double both) {
    const double shorter = std::min(transfer, compute);
    return shorter > 0 ? std::clamp((transfer + compute - both) / shorter, 0.0, 1.0) : 0;
}

bool is_latency(Test test) {
    return test == Test::kLatency || test == Test::kExchange || test == Test::kCollective || test == Test::kFirst ||
           test == Test::kLoan;
}

} // namespace

std::span<const Metric> metrics(Test test) {
    switch (test) {
    case Test::kLatency:
    case Test::kFirst: return kLatency;
    case Test::kLoan: return std::span(kLatency).first(kLoanFigures);
    case Test::kBandwidth:
    case Test::kBidirectional: return kWindow;
    case Test::kRate: return kRate;
    case Test::kExchange: return kExchange;
    case Test::kCollective: return kCollective;
    case Test::kOverlap: return kOverlap;
    case Test::kCall: return kCall;
    }
    return {};
}

std::string printed(const Metric& metric, double figure) {
    if (metric.digits != kWithUnit)
        return fmt::format("{:.{}f}", figure * metric.scale, metric.digits);
    if (figure <= 0)
        return "-";
    if (figure >= 1e9)
        return fmt::format("{:.2f} GB/s", figure * 1e-9);
    return figure >= 1e6 ? fmt::format("{:.2f} MB/s", figure * 1e-6) : fmt::format("{:.2f} kB/s", figure * 1e-3);
}

size_t headline(Test test) { return is_latency(test) ? 0 : metrics(test).size() - 1; }

bool more_is_better(Test test) { return !is_latency(test) && test != Test::kCall; }

std::vector<double> figures(const Task& task, const std::vector<Samples>& pairs) {
    const std::vector<double> first = together(pairs, 0);
    const double bytes = static_cast<double>(task.bytes);
    const double us = median(first);
    switch (task.test) {
    case Test::kLoan: return {us, smallest(first), percentile(first, 0.99)};
    case Test::kLatency:
    case Test::kFirst: return {us, smallest(first), percentile(first, 0.99), us > 0 ? bytes / us * 1e6 : 0};
    case Test::kBandwidth:
    case Test::kBidirectional: return {us, messages_per_second(task, pairs) * bytes};
    case Test::kRate: return {us, messages_per_second(task, pairs)};
    case Test::kExchange: return {us, percentile(first, 0.99), median(together(pairs, 1))};
    case Test::kCollective: {
        const double rate = us > 0 ? bytes / us * 1e6 : 0;
        return {us, percentile(first, 0.99), median(together(pairs, 1)), rate,
                rate * bus_share(task.collective, task.ranks)};
    }
    case Test::kOverlap: {
        const double compute = median(together(pairs, 1));
        const double both = median(together(pairs, 2));
        return {us, compute, both, hidden(us, compute, both)};
    }
    case Test::kCall: {
        const double receive = median(together(pairs, 1));
        return {us, receive, us + receive};
    }
    }
    return {};
}

double ratio(Test test, double ours, double theirs) {
    if (ours <= 0 || theirs <= 0)
        return 0;
    return more_is_better(test) ? ours / theirs : theirs / ours;
}

bool is_nothing(const Task& task, const std::vector<double>& figures) {
    const int messages = task.window == 1 && is_latency(task.test) ? 1 : task.window * (both_ways(task.test) ? 2 : 1);
    return figures[0] / messages < kLeastMessageUs;
}

} // namespace gpurun::bench
