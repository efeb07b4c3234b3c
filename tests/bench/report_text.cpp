#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gpurun::bench {

namespace {

std::string memory_text(const Options& options) {
    const std::string even = name(options.memory[0]);
    return options.memory[0] == options.memory[1] ? even : even + " to " + name(options.memory[1]);
}

// What a test's name does not say.
std::string variant(const Task& task) {
    if (task.test == Test::kExchange)
        return fmt::format(" ({})", name(task.form));
    if (task.test == Test::kCollective)
        return fmt::format(" ({}{})", name(task.collective), task.in_place ? ", in place" : "");
    return "";
}

std::string columns(const Row& row) {
    std::string line = fmt::format("\n# {}{}, order domain: {}\n{:>12} {:>6}", name(row.task.test), variant(row.task),
                                   name(row.task.order), "bytes", of_whole_job(row.task.test) ? "batch" : "window");
    for (const Metric& metric : metrics(row.task.test))
        line += fmt::format(" {:>12}", metric.heading);
    const Metric& compared = metrics(row.task.test)[headline(row.task.test)];
    for (Reference reference : row.against)
        line += fmt::format(" {:>18} {:>8}", fmt::format("{} {}", name(reference), compared.heading), "ratio");
    return line + "\n";
}

} // namespace

std::string text_head(const Report& report) {
    const Machine& machine = report.machine;
    std::string text = fmt::format("# gpurun {}, {}, {}, {} processors", machine.version, machine.date, machine.system,
                                   machine.processors);
    text += machine.driver.empty() ? "\n" : fmt::format(", NVIDIA driver {}\n", machine.driver);
    for (size_t rank = 0; rank < machine.ranks.size(); ++rank) {
        const RankDevice& device = machine.ranks[rank];
        text += fmt::format("# rank {}: device {}, {}{}{}\n", rank, device.ordinal, device.name,
                            device.pci_bus_id.empty() ? "" : " ", device.pci_bus_id);
    }
    const auto& tests = report.options.tests;
    const bool of_pairs = std::any_of(tests.begin(), tests.end(), [](Test test) { return !of_whole_job(test); });
    if (of_pairs && machine.ranks.size() > 3)
        text += fmt::format("# {} pairs at once: times of all, rates added up\n", machine.ranks.size() / 2);
    if (of_pairs && machine.ranks.size() % 2 != 0)
        text += fmt::format("# rank {} has no partner and takes no part\n", machine.ranks.size() - 1);
    if (std::any_of(tests.begin(), tests.end(), of_whole_job))
        text += fmt::format("# collectives of {} ranks: the slowest one counts\n", machine.ranks.size());
    text += machine.share_device ? "# the ranks of a pair share a device\n" : "# a device for each rank of a pair\n";
    for (const auto& [setting, value] : machine.settings)
        text += fmt::format("# {}={}\n", setting, value);
    text += fmt::format("# memory: {}; {} iterations; {}\n", memory_text(report.options), report.options.iterations,
                        report.options.validate ? "every byte of every message is checked"
                                                : "the last messages of each size are checked");
    for (const Named& reference : report.references)
        text += fmt::format("# {}: {}\n", reference.name, reference.text);
    for (const Named& reference : report.left_out)
        text += fmt::format("# {} is left out: {}\n", reference.name, reference.text);
    return text;
}

std::string text_row(const Row& row, const Row* before) {
    const bool same_table = before != nullptr && before->task.test == row.task.test &&
                            before->task.order == row.task.order && before->task.collective == row.task.collective;
    std::string line = same_table ? "" : columns(row);
    line += fmt::format("{:>12} {:>6}", row.task.bytes, of_whole_job(row.task.test) ? row.task.batch : row.task.window);
    const auto all = metrics(row.task.test);
    for (size_t i = 0; i < all.size(); ++i)
        line += fmt::format(" {:>12}", printed(all[i], row.figures[0][i]));
    const Metric& compared = all[headline(row.task.test)];
    for (size_t i = 0; i < row.against.size(); ++i) {
        const double compares = row.ratio_to(i);
        line += fmt::format(" {:>18} ", printed(compared, row.headline_of(i + 1)));
        line += compares > 0 ? fmt::format("{:>8.2f}", compares) : fmt::format("{:>8}", "-");
    }
    return line + "\n";
}

} // namespace gpurun::bench
