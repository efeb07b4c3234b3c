// The drawing: a panel for each test, or for each collective, in it a line for each order domain and contender.

#include "plot.hpp"
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace gpurun::bench {

namespace {

const char* title_of(Test test) {
    switch (test) {
    case Test::kLatency: return "Latency: one way of a ping-pong, median";
    case Test::kBandwidth: return "Bandwidth: a window of messages one way";
    case Test::kBidirectional: return "Bandwidth, both ways at once";
    case Test::kRate: return "Message rate";
    case Test::kExchange: return "Exchange: some messages each way";
    case Test::kCollective: return "Collective by all ranks, median of the slowest";
    case Test::kOverlap: return "Overlap: how much of a transfer computation hides";
    case Test::kFirst: return "First message out of new memory, one way";
    case Test::kLoan: return "Loan: half of the way there and back, median";
    case Test::kCall: return "Host cost of a matched send and receive";
    }
    return "?";
}

// The axis: what, and in which unit. Marks of bandwidth have their own.
const char* quantity_of(Test test) {
    switch (test) {
    case Test::kLatency:
    case Test::kLoan:
    case Test::kFirst: return "latency (us)";
    case Test::kExchange: return "time of an exchange (us)";
    case Test::kCollective: return "time of a collective (us)";
    case Test::kBandwidth:
    case Test::kBidirectional: return "bandwidth (bytes per second)";
    case Test::kRate: return "messages per second";
    case Test::kOverlap: return "hidden part (%)";
    case Test::kCall: return "host time (us)";
    }
    return "?";
}

// Of the ranks that measure, such as "rank 0 on A 0000:06:00.0, rank 1 on B". More than a line has room for are
// counted.
std::string devices(const Machine& machine) {
    constexpr size_t kNamed = 2;
    std::string text;
    for (size_t rank = 0; rank < std::min(machine.ranks.size(), kNamed); ++rank) {
        const RankDevice& device = machine.ranks[rank];
        text += fmt::format("{}rank {} on {}{}{}", rank == 0 ? "" : ", ", rank, device.name,
                            device.pci_bus_id.empty() ? "" : " ", device.pci_bus_id);
    }
    if (machine.ranks.size() > kNamed)
        text += fmt::format(", and {} more ranks", machine.ranks.size() - kNamed);
    return text;
}

// One line, in a color of its own, for each contender and order domain; those of references are dashed.
Series& series_of(Panel& panel, Order order, size_t contender, const std::string& contender_name) {
    const std::string label = fmt::format("{}, {} order", contender_name, name(order));
    for (Series& series : panel.series)
        if (series.label == label)
            return series;
    const int color = static_cast<int>(contender) * 2 + (order == Order::kHost ? 1 : 0);
    return panel.series.emplace_back(Series{label, color, contender > 0, {}});
}

// The rows of `test` that `wanted` is true of.
Panel panel_of(Test test, const std::vector<Row>& rows, const std::function<bool(const Task&)>& wanted) {
    const Metric& metric = metrics(test)[headline(test)];
    Panel panel{title_of(test),
                quantity_of(test),
                test == Test::kOverlap ? Spacing::kLinear : Spacing::kDecades,
                {},
                test == Test::kBandwidth || test == Test::kBidirectional};
    for (const Row& row : rows) {
        if (row.task.test != test || !wanted(row.task))
            continue;
        for (size_t contender = 0; contender < row.figures.size(); ++contender) {
            const char* who = contender == 0 ? "gpurun" : name(row.against[contender - 1]);
            series_of(panel, row.task.order, contender, who)
                .points.emplace_back(static_cast<double>(row.task.bytes), row.headline_of(contender) * metric.scale);
        }
    }
    for (Series& series : panel.series)
        std::sort(series.points.begin(), series.points.end()); // sizes run as they were written
    return panel;
}

void add_collectives(const Report& report, std::vector<Panel>& panels) {
    for (Collective collective : report.options.collectives) {
        panels.push_back(
            panel_of(Test::kCollective, report.rows, [&](const Task& task) { return task.collective == collective; }));
        panels.back().title = fmt::format("{}: {}", name(collective), panels.back().title);
    }
}

} // namespace

std::string svg(const Report& report) {
    std::vector<Panel> panels;
    for (Test test : report.options.tests) {
        if (test == Test::kCollective)
            add_collectives(report, panels);
        else
            panels.push_back(panel_of(test, report.rows, [](const Task&) { return true; }));
    }
    const Machine& machine = report.machine;
    std::vector<std::string> notes{fmt::format("gpurun {}, {}, {}", machine.version, machine.date, machine.system)};
    if (!machine.ranks.empty())
        notes.push_back(devices(machine) + (machine.share_device ? "; a pair shares a device" : ""));
    notes.push_back(fmt::format("memory: {} and {}", name(report.options.memory[0]), name(report.options.memory[1])));
    return draw("gpurun-perf", notes, panels);
}

} // namespace gpurun::bench
