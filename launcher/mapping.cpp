#include "mapping.hpp"

#include "base/format.hpp"
#include "gpu_selection.hpp"
#include "platform/job_segment.hpp"

#include <algorithm>
#include <numeric>

namespace gpurun::launcher {

namespace {

using Indices = std::vector<size_t>;

int node_near(const platform::Machine& machine, const Device& device) {
    const auto found = machine.near.find(device.bus_id);
    return found == machine.near.end() || found->second.empty() ? -1 : machine.cores[found->second[0]].node;
}

// The first device of each NUMA node, then the second ones, and so on.
Indices deal_over_nodes(const Indices& chosen, const std::vector<Device>& devices, const platform::Machine& machine) {
    std::vector<std::pair<int, Indices>> nodes; // in the order in which devices name them
    for (const size_t device : chosen) {
        const int node = node_near(machine, devices[device]);
        auto found = std::find_if(nodes.begin(), nodes.end(), [&](const auto& known) { return known.first == node; });
        if (found == nodes.end())
            found = nodes.insert(nodes.end(), {node, {}});
        found->second.push_back(device);
    }
    Indices dealt;
    for (size_t round = 0; dealt.size() < chosen.size(); ++round)
        for (const auto& [node, members] : nodes)
            if (round < members.size())
                dealt.push_back(members[round]);
    return dealt;
}

base::Result<Indices> choose(const PlacementOptions& options, const std::vector<Device>& devices) {
    if (!options.gpus) {
        Indices all(devices.size());
        std::iota(all.begin(), all.end(), size_t{0});
        return all;
    }
    GPURUN_ASSIGN(Indices chosen, select_devices("--gpus", *options.gpus, devices));
    for (size_t i = 0; i < chosen.size(); ++i)
        if (std::find(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(i), chosen[i]) !=
            chosen.begin() + static_cast<std::ptrdiff_t>(i))
            return base::error(base::Status::kArgument,
                               "--gpus names GPU {} twice; to give a GPU to several ranks, use --map-by list:",
                               devices[chosen[i]].number);
    return chosen;
}

// --map-by list: and --map: the devices of rank 0, 1, ... as they are written.
base::Result<Indices> listed(const PlacementOptions& options, const Indices& chosen,
                             const std::vector<Device>& devices) {
    Indices order;
    if (options.map.empty()) {
        GPURUN_ASSIGN(order, select_devices("--map-by list", options.list, devices));
    }
    for (const MapEntry& entry : options.map) {
        GPURUN_ASSIGN(const Indices one, select_devices("--map", entry.gpu, devices));
        if (one.size() != 1)
            return base::error(base::Status::kArgument, "--map: {} names {} devices, but a rank gets only one",
                               entry.gpu, one.size());
        order.push_back(one[0]);
    }
    for (const size_t device : order)
        if (std::find(chosen.begin(), chosen.end(), device) == chosen.end())
            return base::error(base::Status::kArgument, "--map-by list: names GPU {}, which --gpus leaves out",
                               devices[device].number);
    return order;
}

base::Error too_many(const PlacementOptions& options, size_t ranks, size_t room, const std::vector<Device>& devices,
                     size_t chosen) {
    const std::string there =
        options.map_by == MapBy::kList
            ? base::format("--map-by list: names the GPUs of {}", room)
            : base::format("{}{}{}", count_devices(devices, chosen), options.gpus ? " in --gpus" : "",
                           options.ranks_per_gpu ? base::format(" with {} each", *options.ranks_per_gpu) : "");
    return base::error(base::Status::kArgument,
                       "{} rank{}, but {}: start at most {} with -n {}, or let ranks share with --oversubscribe", ranks,
                       ranks == 1 ? "" : "s", there, room, room);
}

base::Result<void> check_number(size_t ranks) {
    if (ranks <= platform::kMaxRanks)
        return {};
    return base::error(base::Status::kArgument, "{} ranks, but a node has at most {}: name more hosts", ranks,
                       platform::kMaxRanks);
}

} // namespace

base::Result<std::optional<size_t>> ranks_asked_for(const std::vector<Program>& programs,
                                                    const PlacementOptions& options) {
    std::optional<size_t> ranks = wanted_ranks(programs);
    if (!options.map.empty()) {
        if (ranks && *ranks != options.map.size())
            return base::error(base::Status::kArgument,
                               "--map is for {} rank{}, but -n asks for {}: leave -n out, or "
                               "make them agree",
                               options.map.size(), options.map.size() == 1 ? "" : "s", *ranks);
        ranks = options.map.size();
    }
    GPURUN_TRY(check_number(ranks.value_or(1)));
    return ranks;
}

base::Result<Mapping> map_ranks(const PlacementOptions& options, std::optional<size_t> ranks,
                                const std::vector<Device>& devices, const platform::Machine& machine) {
    Mapping mapping;
    GPURUN_ASSIGN(mapping.chosen, choose(options, devices));
    const bool written = !options.map.empty() || options.map_by == MapBy::kList;
    Indices order = options.map_by == MapBy::kNuma ? deal_over_nodes(mapping.chosen, devices, machine) : mapping.chosen;
    if (written) {
        GPURUN_ASSIGN(order, listed(options, mapping.chosen, devices));
    }
    const size_t each = options.ranks_per_gpu.value_or(1);
    const size_t room = order.size() * each;
    const size_t count = ranks.value_or(room);
    GPURUN_TRY(check_number(count));
    if (count > room && !options.oversubscribe)
        return too_many(options, count, room, devices, mapping.chosen.size());
    // With a number of ranks for each, the first devices get as many, and others none.
    if (!written && count < room)
        order.resize((count + each - 1) / each);
    for (size_t rank = 0; rank < count; ++rank)
        mapping.devices.push_back(order[rank % order.size()]);
    return mapping;
}

} // namespace gpurun::launcher
