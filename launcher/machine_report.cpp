#include "machine_report.hpp"

#include "base/format.hpp"
#include "cpu_list.hpp"
#include "text_table.hpp"

#include <algorithm>
#include <map>

namespace gpurun::launcher {

namespace {

std::string gpus_as_text(const MachineView& view) {
    std::string text;
    if (view.gpus.empty()) {
        text = base::format("no GPU: {}; ranks get emulated devices\n", view.absence);
    } else {
        std::vector<std::vector<std::string>> rows{{"gpu", "pci", "numa", "cpus near it", "mig", "name", "uuid"}};
        for (size_t i = 0; i < view.gpus.size(); ++i) {
            const platform::Gpu& gpu = view.gpus[i];
            const GpuPlace around = place_of(gpu, view.machine);
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

// A row and a column for each GPU, as nvidia-smi topo -m prints them, and what stands in it.
std::string matrix_as_text(const MachineFacts& facts) {
    const size_t gpus = facts.view.gpus.size();
    std::vector<std::vector<std::string>> rows(gpus + 1, std::vector<std::string>(gpus + 1, "X"));
    rows[0][0] = "";
    std::map<std::string, std::string> meanings;
    for (size_t i = 0; i < gpus; ++i)
        rows[0][i + 1] = rows[i + 1][0] = base::format("GPU{}", i);
    for (const PairFacts& pair : facts.pairs) {
        rows[pair.first + 1][pair.second + 1] = rows[pair.second + 1][pair.first + 1] = pair.code;
        meanings[pair.code] = pair.nvlinks > 0 ? base::format("{} NVLinks", pair.nvlinks) : pair.link;
    }
    std::string text = format_table(rows);
    for (const auto& [code, meaning] : meanings)
        text += base::format("{}: {}\n", code, meaning);
    return text;
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

} // namespace

std::string machine_as_text(const MachineFacts& facts) {
    std::string text = base::format("{}\n", gpus_as_text(facts.view));
    if (!facts.pairs.empty())
        text += base::format("{}\n{}\n", matrix_as_text(facts), pairs_as_text(facts));
    text += nodes_as_text(facts.view.machine);
    if (facts.mps && !facts.view.gpus.empty())
        text += base::format("\n{}", mps_as_text(*facts.mps));
    return text;
}

} // namespace gpurun::launcher
