#include "placement_report.hpp"

#include "base/format.hpp"
#include "cpu_list.hpp"
#include "text_table.hpp"

#include <algorithm>

namespace gpurun::launcher {

namespace {

std::string describe_node(const Binding& binding) {
    if (binding.memory.empty())
        return "-";
    return format_cpus(binding.memory) + (binding.strict_memory ? " only" : "");
}

bool is_near_known(const platform::Machine& machine, const Device& device) {
    const auto found = machine.near.find(device.bus_id);
    return found != machine.near.end() && !found->second.empty() && found->second.size() < machine.cores.size();
}

bool has_one_node(const platform::Machine& machine) {
    return std::all_of(machine.cores.begin(), machine.cores.end(),
                       [&](const platform::Core& core) { return core.node == machine.cores[0].node; });
}

// GPUs of which the machine does not tell where they are.
std::string notice_of_places(const Placement& placement, const platform::Machine& machine) {
    std::vector<int> unknown;
    if (!placement.on_gpus || has_one_node(machine))
        return "";
    for (const RankPlan& rank : placement.ranks)
        if (!is_near_known(machine, rank.device))
            unknown.push_back(static_cast<int>(rank.device.number));
    if (unknown.empty())
        return "";
    return base::format("nothing tells which cores are near GPU {}\n", format_cpus(unknown));
}

} // namespace

std::string bindings_as_table(const Options& options, const Placement& placement, const platform::Machine& machine,
                              uint32_t first_rank) {
    std::vector<std::vector<std::string>> rows{{"rank", "gpu", "pci", "numa", "cpus", "cores", "uuid"}};
    const bool several = options.programs.size() > 1;
    if (several)
        rows[0].push_back("program");
    for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
        const RankPlan& plan = placement.ranks[rank];
        const Binding& binding = plan.binding;
        rows.push_back({std::to_string(first_rank + rank), std::to_string(plan.device.number),
                        or_dash(plan.device.bus_id), describe_node(binding),
                        binding.cpus.empty() ? "any" : format_cpus(binding.cpus), std::to_string(binding.threads),
                        or_dash(plan.device.uuid)});
        const std::vector<std::string>& command = options.programs[plan.program].command;
        if (several)
            rows.back().push_back(command.empty() ? "-" : command[0]);
    }
    std::string text = format_table(rows);
    if (!placement.core_notice.empty())
        text += placement.core_notice + "\n";
    return text + notice_of_places(placement, machine);
}

bool says_core_notice(const Options& options, const Placement& placement) {
    const bool table_says_it = options.report.bindings && !options.report.json;
    return placement.on_gpus && !options.placement.oversubscribe && !placement.core_notice.empty() && !table_says_it;
}

} // namespace gpurun::launcher
