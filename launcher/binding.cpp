#include "binding.hpp"

#include "base/format.hpp"
#include "core_shares.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace gpurun::launcher {

namespace {

// What is near each rank's device; where nothing is known, everything.
std::vector<Cores> near_cores(const platform::Machine& machine, const std::vector<Device>& devices) {
    Cores everywhere(machine.cores.size());
    std::iota(everywhere.begin(), everywhere.end(), size_t{0});
    std::vector<Cores> near;
    for (const Device& device : devices) {
        const auto found = machine.near.find(device.bus_id);
        near.push_back(found != machine.near.end() && !found->second.empty() ? found->second : everywhere);
    }
    return near;
}

std::set<int> nodes_of(const platform::Machine& machine, const Cores& cores) {
    std::set<int> nodes;
    for (const size_t core : cores)
        nodes.insert(machine.cores[core].node);
    return nodes;
}

// -1 if there are several.
int only_node(const platform::Machine& machine, const Cores& cores) {
    const std::set<int> nodes = nodes_of(machine, cores);
    return nodes.size() == 1 ? *nodes.begin() : -1;
}

Cores cores_of_node(const platform::Machine& machine, int node) {
    Cores cores;
    for (size_t core = 0; core < machine.cores.size(); ++core)
        if (machine.cores[core].node == node)
            cores.push_back(core);
    return cores;
}

// One NUMA node for each rank, of those that are near: the one with the most cores left for each of its ranks.
std::vector<Cores> narrow_to_nodes(const platform::Machine& machine, const std::vector<Cores>& near) {
    std::vector<Cores> result(near.size());
    std::map<int, size_t> ranks;
    // Those that have a choice choose last.
    for (const bool choice : {false, true})
        for (size_t rank = 0; rank < near.size(); ++rank) {
            const std::set<int> nodes = nodes_of(machine, near[rank]);
            if ((nodes.size() > 1) != choice)
                continue;
            int best = -1;
            size_t most = 0;
            for (const int node : nodes)
                if (const size_t left = 1000 * cores_of_node(machine, node).size() / (ranks[node] + 1); left > most) {
                    best = node;
                    most = left;
                }
            ++ranks[best];
            result[rank] = cores_of_node(machine, best);
        }
    return result;
}

void bind_memory(Binding& binding, Membind membind, const std::set<int>& fallback) {
    binding.strict_memory = membind == Membind::kBind;
    if (membind == Membind::kNone)
        return;
    if (binding.node >= 0)
        binding.memory = {binding.node};
    else if (membind == Membind::kBind) // several nodes can be demanded, but only one preferred
        for (const int node : fallback)
            if (node >= 0)
                binding.memory.push_back(node);
}

base::Result<Binding> bind_entry(const platform::Machine& machine, const MapEntry& entry, Membind membind) {
    Binding binding;
    Cores cores;
    std::set<int> known;
    for (size_t core = 0; core < machine.cores.size(); ++core)
        for (const int cpu : machine.cores[core].cpus) {
            known.insert(cpu);
            if (std::binary_search(entry.cpus.begin(), entry.cpus.end(), cpu) &&
                (cores.empty() || cores.back() != core))
                cores.push_back(core);
        }
    for (const int cpu : entry.cpus)
        if (!known.contains(cpu))
            return base::error(base::Status::kArgument,
                               "--map: there is no CPU {} that ranks may use (gpurun --topo lists those that they may)",
                               cpu);
    binding.cpus = entry.cpus;
    binding.threads = cores.size();
    binding.node = entry.node.value_or(only_node(machine, cores));
    if (entry.node && !machine.memory_nodes.contains(*entry.node))
        return base::error(base::Status::kArgument, "--map: there is no NUMA node {} here (gpurun --topo lists them)",
                           *entry.node);
    bind_memory(binding, membind, nodes_of(machine, cores));
    return binding;
}

} // namespace

std::vector<Binding> bind_ranks(const platform::Machine& machine, const std::vector<Device>& devices, BindTo bind_to,
                                std::optional<Membind> membind) {
    std::vector<Binding> bindings(devices.size());
    if (machine.cores.empty() || devices.empty())
        return bindings;
    std::vector<Cores> near = near_cores(machine, devices);
    if (bind_to == BindTo::kNuma)
        near = narrow_to_nodes(machine, near);
    const std::vector<Share> shares = bind_to == BindTo::kNone ? std::vector<Share>() : share_cores(machine, near);
    for (size_t rank = 0; rank < devices.size(); ++rank) {
        Binding& binding = bindings[rank];
        binding.node = only_node(machine, near[rank]);
        std::set<int> nodes = nodes_of(machine, near[rank]);
        if (bind_to == BindTo::kNone) {
            binding.threads = std::max<size_t>(machine.cores.size() / devices.size(), 1);
        } else {
            binding.cpus = shares[rank].cpus;
            binding.threads = devices.size() <= machine.cores.size() ? shares[rank].cores.size() : 1;
            if (binding.node < 0) {
                binding.node = only_node(machine, shares[rank].cores);
                nodes = nodes_of(machine, shares[rank].cores);
            }
        }
        bind_memory(binding, membind.value_or(bind_to == BindTo::kNone ? Membind::kNone : Membind::kPrefer), nodes);
    }
    return bindings;
}

base::Result<std::vector<Binding>> bind_as_mapped(const platform::Machine& machine, const PlacementOptions& options) {
    std::vector<Binding> bindings;
    std::map<int, size_t> owner;
    for (size_t rank = 0; rank < options.map.size(); ++rank) {
        GPURUN_ASSIGN(Binding binding,
                      bind_entry(machine, options.map[rank], options.membind.value_or(Membind::kPrefer)));
        for (const int cpu : binding.cpus)
            if (const auto [at, fresh] = owner.emplace(cpu, rank); !fresh && !options.oversubscribe)
                return base::error(base::Status::kArgument,
                                   "--map: ranks {} and {} would share CPU {}; --oversubscribe allows that", at->second,
                                   rank, cpu);
        bindings.push_back(std::move(binding));
    }
    return bindings;
}

} // namespace gpurun::launcher
