#include "machine_facts.hpp"

#include "base/format.hpp"

#include <cstdlib>

namespace gpurun::launcher {

namespace {

using Links = std::vector<std::vector<platform::GpuLink>>;

platform::GpuPair pair_of(const platform::Gpu& a, const platform::Gpu& b) {
    return a.bus_id < b.bus_id ? platform::GpuPair(a.bus_id, b.bus_id) : platform::GpuPair(b.bus_id, a.bus_id);
}

const char* describe(platform::PciPath path) {
    switch (path) {
    case platform::PciPath::kSwitch: return "PCIe, one switch";
    case platform::PciPath::kHostBridge: return "PCIe, one host bridge";
    case platform::PciPath::kNode: return "PCIe, one NUMA node";
    case platform::PciPath::kSystem: break;
    }
    return "PCIe, across NUMA nodes";
}

// As nvidia-smi has them.
const char* code_of(platform::PciPath path) {
    switch (path) {
    case platform::PciPath::kSwitch: return "PIX";
    case platform::PciPath::kHostBridge: return "PHB";
    case platform::PciPath::kNode: return "NODE";
    case platform::PciPath::kSystem: break;
    }
    return "SYS";
}

// For people, and in short.
struct Link {
    std::string text;
    std::string code;
};
Link describe_link(const platform::Machine& machine, const platform::Gpu& a, const platform::Gpu& b, unsigned nvlinks) {
    if (a.bus_id == b.bus_id)
        return {"same GPU", "SAME"};
    if (nvlinks > 0)
        return {base::format("NV{}", nvlinks), base::format("NV{}", nvlinks)};
    if (machine.nvlinks.contains(pair_of(a, b)))
        return {"NVLink", "NV"};
    const auto path = machine.paths.find(pair_of(a, b));
    if (path == machine.paths.end())
        return {"none known", "?"};
    return {describe(path->second), code_of(path->second)};
}

PairFacts pair_facts(const MachineFacts& facts, const Links& links, size_t first, size_t second) {
    const std::vector<platform::Gpu>& gpus = facts.view.gpus;
    PairFacts pair{.first = first, .second = second};
    if (!links.empty()) {
        const platform::GpuLink& link = links[first][second];
        pair.nvlinks = link.nvlinks;
        pair.peer_access = link.peer_access;
        pair.obstacle = link.reason;
    } else if (facts.view.machine.nvlinks.contains(pair_of(gpus[first], gpus[second]))) {
        pair.peer_access = true;
    }
    Link link = describe_link(facts.view.machine, gpus[first], gpus[second], pair.nvlinks);
    pair.link = std::move(link.text);
    pair.code = std::move(link.code);
    if (pair.peer_access)
        pair.paths = forecast_paths(*pair.peer_access, facts.settings);
    return pair;
}

} // namespace

std::vector<std::string> forecast_paths(bool peer_access, const base::Settings& settings) {
    if (!peer_access || settings.path == base::PathChoice::kStaged)
        return {"staged"};
    if (settings.path == base::PathChoice::kBounce)
        return {"bounce"};
    if (settings.path == base::PathChoice::kDirect || settings.mail_bytes == 0 ||
        settings.fence == base::FenceKind::kEvent)
        return {"direct"};
    return {"mailbox", "direct"};
}

base::Result<MachineFacts> gather_facts(const Options& options, const char* const* environment) {
    MachineFacts facts;
    GPURUN_ASSIGN(facts.view, view_machine(options));
    GPURUN_ASSIGN(facts.settings, base::read_settings([](const char* name) { return std::getenv(name); }));
    const std::vector<platform::Gpu>& gpus = facts.view.gpus;
    Links links;
    if (!options.report.record && gpus.size() > 1)
        links = platform::find_links(gpus);
    for (size_t first = 0; first < gpus.size(); ++first)
        for (size_t second = first + 1; second < gpus.size(); ++second)
            facts.pairs.push_back(pair_facts(facts, links, first, second));
    if (!options.report.record) {
        GPURUN_ASSIGN(facts.mps, look_for_mps(environment));
    }
    return facts;
}

} // namespace gpurun::launcher
