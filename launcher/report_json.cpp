#include "report_json.hpp"

#include "cpu_list.hpp"

#include <nlohmann/json.hpp>

namespace gpurun::launcher {

namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json gpus_as_json(const MachineView& view) {
    Json array = Json::array();
    for (size_t i = 0; i < view.gpus.size(); ++i) {
        const platform::Gpu& gpu = view.gpus[i];
        const GpuPlace around = place_of(gpu, view.machine);
        Json& object = array.emplace_back();
        object["gpu"] = i;
        object["uuid"] = or_null(gpu.uuid);
        object["pci"] = gpu.bus_id;
        object["numa"] = around.nodes.size() == 1 ? Json(around.nodes[0]) : Json();
        object["cpus"] = or_null(format_cpus(around.cpus));
        object["name"] = or_null(gpu.name);
        object["mig_instance_of"] = or_null(gpu.parent);
    }
    return array;
}

Json pairs_as_json(const std::vector<PairFacts>& pairs) {
    Json array = Json::array();
    for (const PairFacts& pair : pairs) {
        Json& object = array.emplace_back();
        object["gpus"] = {pair.first, pair.second};
        object["link"] = pair.link;
        object["nvlinks"] = pair.nvlinks;
        object["peer_access"] = pair.peer_access ? Json(*pair.peer_access) : Json();
        object["paths"] = pair.paths.empty() ? Json() : Json(pair.paths);
    }
    return array;
}

std::vector<int> all_cpus(const platform::Machine& machine) {
    std::vector<int> cpus;
    for (const platform::Core& core : machine.cores)
        cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
    return cpus;
}

} // namespace

std::string machine_as_json(const MachineFacts& facts) {
    Json object;
    object["gpus"] = gpus_as_json(facts.view);
    object["no_gpu_because"] = or_null(facts.view.absence);
    object["in_mig_mode_without_instances"] = facts.view.unusable;
    object["pairs"] = pairs_as_json(facts.pairs);
    object["numa"] = Json::array();
    for (const int node : facts.view.machine.memory_nodes)
        object["numa"].push_back({{"node", node}, {"cpus", format_cpus(cpus_of_node(facts.view.machine, node))}});
    object["mps"] = Json();
    if (facts.mps)
        object["mps"] = {{"program", or_null(facts.mps->program)}, {"daemon_answers_in", or_null(facts.mps->pipes)}};
    return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string bindings_as_json(const Placement& placement, const platform::Machine& machine, uint32_t first_rank) {
    Json array = Json::array();
    for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
        const RankPlan& plan = placement.ranks[rank];
        Json variables = Json::object();
        for (const Variable& variable : plan.variables)
            variables[variable.name] = variable.value;
        Json& object = array.emplace_back();
        object["rank"] = first_rank + rank;
        object["gpu"] = plan.device.number;
        object["uuid"] = or_null(plan.device.uuid);
        object["pci"] = or_null(plan.device.bus_id);
        object["numa"] = plan.binding.node < 0 ? Json() : Json(plan.binding.node);
        object["cpus"] = format_cpus(plan.binding.cpus.empty() ? all_cpus(machine) : plan.binding.cpus);
        object["env"] = std::move(variables);
    }
    return array.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<std::string> join_json(const std::vector<std::pair<std::string, std::string>>& of_hosts) {
    Json all = Json::array();
    for (const auto& [host, text] : of_hosts) {
        Json own = Json::parse(text, nullptr, false);
        if (own.is_object())
            own = Json::array({own});
        if (!own.is_array())
            return std::nullopt;
        for (const Json& each : own) {
            Json& object = all.emplace_back();
            object["host"] = host;
            if (!each.is_object())
                return std::nullopt;
            object.update(each);
        }
    }
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace gpurun::launcher
