#include "machine_report.hpp"

#include "base/format.hpp"
#include "cpu_list.hpp"
#include "text_table.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace gpurun::launcher {

namespace {

std::vector<int> cpus_of_node(const platform::Machine& machine, int node) {
    std::vector<int> cpus;
    for (const platform::Core& core : machine.cores)
        if (core.node == node)
            cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
    return cpus;
}

// Where a GPU is. Nothing known: no CPUs.
struct Place {
    std::vector<int> cpus;
    std::vector<int> nodes;
};
Place near(const platform::Machine& machine, const platform::Gpu& gpu) {
    Place found;
    const auto near = machine.near.find(gpu.bus_id);
    if (near == machine.near.end())
        return found;
    std::set<int> nodes;
    for (const size_t core : near->second) {
        const std::vector<int>& cpus = machine.cores[core].cpus;
        found.cpus.insert(found.cpus.end(), cpus.begin(), cpus.end());
        nodes.insert(machine.cores[core].node);
    }
    found.nodes.assign(nodes.begin(), nodes.end());
    return found;
}

std::string gpus_as_text(const MachineView& view) {
    std::string text;
    if (view.gpus.empty()) {
        text = base::format("no GPU: {}; ranks get emulated devices\n", view.absence);
    } else {
        std::vector<std::vector<std::string>> rows{{"gpu", "pci", "numa", "cpus near it", "mig", "name", "uuid"}};
        for (size_t i = 0; i < view.gpus.size(); ++i) {
            const platform::Gpu& gpu = view.gpus[i];
            const Place around = near(view.machine, gpu);
            rows.push_back({std::to_string(i), gpu.bus_id, or_dash(format_cpus(around.nodes)),
                            or_dash(format_cpus(around.cpus)), gpu.parent.empty() ? "-" : "instance", or_dash(gpu.name),
                            or_dash(gpu.uuid)});
        }
        text = format_table(rows);
    }
    for (const std::string& uuid : view.unusable)
        text += base::format("{} is in MIG mode and has no instances, so nobody can use it (nvidia-smi mig)\n", uuid);
    return text;
}

std::string nodes_as_text(const platform::Machine& machine) {
    std::vector<std::vector<std::string>> rows{{"numa", "cpus that ranks may use"}};
    for (const int node : machine.memory_nodes)
        rows.push_back({std::to_string(node), or_dash(format_cpus(cpus_of_node(machine, node)))});
    return format_table(rows);
}

std::string describe_peer_access(const PairFacts& pair) {
    if (!pair.peer_access)
        return "not recorded";
    if (*pair.peer_access)
        return "yes";
    return pair.obstacle.empty() ? "no" : base::format("no: {}", pair.obstacle);
}

std::string describe_paths(const std::vector<std::string>& paths) {
    std::string text;
    for (const std::string& path : paths) {
        text += text.empty() ? "" : ", ";
        text += path;
    }
    return text.empty() ? "direct with peer access, else staged" : text;
}

bool any_takes(const MachineFacts& facts, const std::string& path) {
    return std::any_of(facts.pairs.begin(), facts.pairs.end(), [&](const PairFacts& pair) {
        return std::find(pair.paths.begin(), pair.paths.end(), path) != pair.paths.end();
    });
}

std::string pairs_as_text(const MachineFacts& facts) {
    std::vector<std::vector<std::string>> rows{{"between", "link", "peer access", "path of messages"}};
    for (const PairFacts& pair : facts.pairs)
        rows.push_back({base::format("{} {}", pair.first, pair.second), pair.link, describe_peer_access(pair),
                        describe_paths(pair.paths)});
    std::string text = format_table(rows);
    if (any_takes(facts, "mailbox"))
        text += base::format("mailbox: up to {} bytes, between streams; direct: CUDA IPC\n", facts.settings.mail_bytes);
    if (any_takes(facts, "staged"))
        text += "staged: through pinned host memory\n";
    if (!facts.mps && facts.view.machine.nvlinks.empty())
        text += "whether there is NVLink is not recorded\n";
    return text;
}

std::string mps_as_text(const MpsState& mps) {
    if (mps.program.empty())
        return base::format("no MPS, so ranks that share a GPU take turns: {}\n", mps.reason);
    if (!mps.pipes.empty())
        return base::format("MPS: the daemon that answers in {} serves ranks that share a GPU\n", mps.pipes);
    return base::format("MPS: none runs; {} is started for ranks that share a GPU\n", mps.program);
}

using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json gpus_as_json(const MachineView& view) {
    Json array = Json::array();
    for (size_t i = 0; i < view.gpus.size(); ++i) {
        const platform::Gpu& gpu = view.gpus[i];
        const Place around = near(view.machine, gpu);
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

} // namespace

std::string machine_as_text(const MachineFacts& facts) {
    std::string text = base::format("{}\n", gpus_as_text(facts.view));
    if (!facts.pairs.empty())
        text += base::format("{}\n", pairs_as_text(facts));
    text += nodes_as_text(facts.view.machine);
    if (facts.mps && !facts.view.gpus.empty())
        text += base::format("\n{}", mps_as_text(*facts.mps));
    return text;
}

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

} // namespace gpurun::launcher
