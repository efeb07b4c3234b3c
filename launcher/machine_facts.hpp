// What --topo tells of a machine: its GPUs, how they reach each other, which path messages between them will take,
// NUMA nodes and MPS. Gathered here, by asking the system; machine_report prints it.
#pragma once

#include "base/settings.hpp"
#include "machine_view.hpp"
#include "mps.hpp"
#include "platform/gpu_links.hpp"

#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

// Two GPUs, by their numbers.
struct PairFacts {
    size_t first = 0;
    size_t second = 0;
    std::string link;     // for people: "NV18", "PCIe switch", ...
    std::string code;     // the same as nvidia-smi topo -m has it: "NV18", "PIX", ...; "?": not known
    unsigned nvlinks = 0; // 0 also where a record has only that there are some
    std::optional<bool> peer_access;
    std::string obstacle;           // why there is no peer access, where somebody told
    std::vector<std::string> paths; // that messages take, the one for small messages first; none: nobody knows
};

struct MachineFacts {
    MachineView view;
    std::vector<PairFacts> pairs;
    std::optional<MpsState> mps; // none: this is a record
    base::Settings settings;
};

base::Result<MachineFacts> gather_facts(const Options& options, const char* const* environment);

// The paths of messages between streams of two GPUs. A pure function, in the runtime's words.
std::vector<std::string> forecast_paths(bool peer_access, const base::Settings& settings);

} // namespace gpurun::launcher
