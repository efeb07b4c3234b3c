#include "placement.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace gpurun::launcher {

namespace {

using Cores = std::vector<size_t>; // indices into Machine::cores, ascending
constexpr size_t kNobody = SIZE_MAX;

// Ranks whose devices have the same nearest cores.
struct Group {
    Cores near;
    std::vector<size_t> ranks;
    Cores cores; // what they get

    bool lacks() const { return cores.size() < ranks.size(); }
    bool can_give() const { return cores.size() > ranks.size(); }
};

std::vector<Group> group_ranks(const platform::Machine& machine, const std::vector<RankDevice>& devices) {
    Cores everywhere(machine.cores.size());
    std::iota(everywhere.begin(), everywhere.end(), size_t{0});
    std::map<Cores, std::vector<size_t>> by_cores;
    for (size_t rank = 0; rank < devices.size(); ++rank) {
        const auto found = machine.near.find(devices[rank].bus_id);
        const bool known = found != machine.near.end() && !found->second.empty();
        by_cores[known ? found->second : everywhere].push_back(rank);
    }
    std::vector<Group> groups;
    for (auto& [near, ranks] : by_cores)
        groups.push_back(Group{near, std::move(ranks), {}});
    // A neighbourhood inside another one takes its cores first: the wider one has others.
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group& a, const Group& b) { return a.near.size() < b.near.size(); });
    return groups;
}

// The core that `needy` should get next: a near one rather than a far one, a free one rather than another group's.
// There is one while there are as many cores as ranks.
size_t choose_core(const std::vector<Group>& groups, const std::vector<size_t>& owner, size_t needy) {
    const Cores& near = groups[needy].near;
    const size_t home = near[near.size() / 2];
    std::tuple<bool, bool, size_t> best_cost{true, true, SIZE_MAX};
    size_t best = kNobody;
    for (size_t core = 0; core < owner.size(); ++core) {
        if (owner[core] == needy || (owner[core] != kNobody && !groups[owner[core]].can_give()))
            continue;
        const std::tuple cost{!std::binary_search(near.begin(), near.end(), core), owner[core] != kNobody,
                              core > home ? core - home : home - core};
        if (best == kNobody || cost < best_cost) {
            best = core;
            best_cost = cost;
        }
    }
    return best;
}

void divide_machine(std::vector<Group>& groups, size_t core_count) {
    std::vector<size_t> owner(core_count, kNobody);
    for (size_t i = 0; i < groups.size(); ++i)
        for (const size_t core : groups[i].near)
            if (owner[core] == kNobody) {
                owner[core] = i;
                groups[i].cores.push_back(core);
            }
    for (size_t i = 0; i < groups.size(); ++i)
        while (groups[i].lacks()) {
            const size_t core = choose_core(groups, owner, i);
            CHECK(core != kNobody);
            if (owner[core] != kNobody)
                std::erase(groups[owner[core]].cores, core);
            owner[core] = i;
            Cores& cores = groups[i].cores;
            cores.insert(std::upper_bound(cores.begin(), cores.end(), core), core);
        }
}

// The `index`-th of `shares` equal parts of `items`, neighbours together.
template <typename T>
std::vector<T> share_of(const std::vector<T>& items, size_t index, size_t shares) {
    const auto at = [&](size_t i) { return items.begin() + static_cast<std::ptrdiff_t>(i * items.size() / shares); };
    return std::vector<T>(at(index), at(index + 1));
}

std::vector<int> cpus_of(const platform::Machine& machine, const Cores& cores) {
    std::vector<int> cpus;
    for (const size_t core : cores)
        cpus.insert(cpus.end(), machine.cores[core].cpus.begin(), machine.cores[core].cpus.end());
    return cpus;
}

// Whole cores while they last, then hardware threads; where these do not suffice either, everybody gets all.
std::vector<int> cpus_of_member(const platform::Machine& machine, const Group& group, size_t index) {
    const size_t ranks = group.ranks.size();
    if (ranks <= group.cores.size())
        return cpus_of(machine, share_of(group.cores, index, ranks));
    const std::vector<int> threads = cpus_of(machine, group.cores);
    return ranks <= threads.size() ? share_of(threads, index, ranks) : threads;
}

// -1 if the cores belong to several nodes: memory then follows the thread that first touches it.
int common_node(const platform::Machine& machine, const Cores& cores) {
    int node = -1;
    for (const size_t core : cores) {
        if (node >= 0 && machine.cores[core].node != node)
            return -1;
        node = machine.cores[core].node;
    }
    return node;
}

int memory_node(const platform::Machine& machine, const Group& group, const std::vector<int>& cpus) {
    if (machine.nodes < 2)
        return -1;
    if (const int near = common_node(machine, group.near); near >= 0)
        return near;
    Cores own;
    for (size_t core = 0; core < machine.cores.size(); ++core)
        if (std::find(cpus.begin(), cpus.end(), machine.cores[core].cpus[0]) != cpus.end())
            own.push_back(core);
    return common_node(machine, own);
}

} // namespace

std::vector<RankPlacement> place_ranks(const platform::Machine& machine, const std::vector<RankDevice>& devices,
                                       BindTo bind_to) {
    std::vector<RankPlacement> placements(devices.size());
    if (bind_to == BindTo::kNone || machine.cores.empty())
        return placements;
    std::vector<Group> groups = group_ranks(machine, devices);
    if (devices.size() <= machine.cores.size())
        divide_machine(groups, machine.cores.size());
    else
        for (Group& group : groups)
            group.cores = group.near;
    for (const Group& group : groups)
        for (size_t i = 0; i < group.ranks.size(); ++i) {
            RankPlacement& placement = placements[group.ranks[i]];
            placement.cpus = cpus_of_member(machine, group, i);
            placement.memory_node = memory_node(machine, group, placement.cpus);
        }
    return placements;
}

} // namespace gpurun::launcher
