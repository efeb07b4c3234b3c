// What --report-bindings, --dry-run and --topo print of several nodes: each node says its part, and all of it is
// printed together, in the order of the nodes.
#include "head.hpp"

#include "host_reports.hpp"
#include "platform/byte_stream.hpp"

#include <algorithm>

namespace gpurun::launcher {

bool Head::take_report(Node& node, std::string_view message) {
    const bool is_due = options_.report.topology ? node.stage == Stage::kSetUp : node.stage == Stage::kPlaced;
    if (!is_due || node.report || !(options_.report.bindings || options_.report.topology))
        return false;
    node.report = message;
    const auto has_said = [&](const auto& each) {
        return each->report || (!options_.report.topology && each->count == 0);
    };
    if (std::all_of(nodes_.begin(), nodes_.end(), has_said))
        print_reports();
    return true;
}

void Head::print_reports() {
    std::vector<std::pair<std::string, std::string>> of_hosts;
    for (const auto& node : nodes_)
        if (node->report)
            of_hosts.emplace_back(node->host.name, *node->report);
    const std::string text = join_reports(of_hosts, options_.report.json);
    const bool starts_nothing = options_.report.dry_run || options_.report.topology;
    if (starts_nothing) {
        if (const auto printed = platform::print(text); !printed) {
            exit_status_ = 1;
            say(printed.error().detail);
        }
    } else if (options_.report.json) { // for a program to read
        platform::write_all(platform::kStandardError, text);
    } else {
        say(text);
    }
}

} // namespace gpurun::launcher
