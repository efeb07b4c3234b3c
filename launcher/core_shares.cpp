#include "core_shares.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace gpurun::launcher {

namespace {

constexpr size_t kNobody = SIZE_MAX;

// Ranks that prefer the same cores. "Core" also means hardware thread below, if these are divided.
struct Group {
    Cores near;
    std::vector<size_t> ranks;
    size_t fair = 0; // as many cores as it should have
    Cores cores;     // what they get
};

bool meet(const Cores& a, const Cores& b) {
    Cores both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return !both.empty();
}

std::vector<Group> group_ranks(const std::vector<Cores>& near) {
    std::map<Cores, std::vector<size_t>> by_cores;
    for (size_t rank = 0; rank < near.size(); ++rank)
        by_cores[near[rank]].push_back(rank);
    std::vector<Group> groups;
    for (auto& [cores, ranks] : by_cores)
        groups.push_back(Group{cores, std::move(ranks), 0, {}});
    for (Group& group : groups) {
        size_t rivals = 0;
        for (const Group& other : groups)
            rivals += meet(group.near, other.near) ? other.ranks.size() : 0;
        group.fair = group.ranks.size() * std::max<size_t>(group.near.size() / rivals, 1);
    }
    // A neighbourhood inside another one takes its cores first: the wider one has others.
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group& a, const Group& b) { return a.near.size() < b.near.size(); });
    return groups;
}

// Who has which core while they are divided.
class Division {
  public:
    Division(std::vector<Group>& groups, size_t cores) : groups_(groups), owner_(cores, kNobody) {
        for (size_t i = 0; i < groups.size(); ++i)
            for (const size_t core : groups[i].near)
                if (owner_[core] == kNobody) {
                    owner_[core] = i;
                    groups[i].cores.push_back(core);
                }
    }

    // Groups that have more than their fair share give the rest back.
    void be_fair() {
        for (size_t i = 0; i < groups_.size(); ++i)
            while (groups_[i].cores.size() < groups_[i].fair) {
                const size_t core = choose(i, true);
                if (core == kNobody)
                    break;
                move(core, i);
            }
    }

    // A core for each rank, from far if it must be. REQUIRES: there are as many cores as ranks.
    void leave_nobody_without() {
        for (size_t i = 0; i < groups_.size(); ++i)
            while (groups_[i].cores.size() < groups_[i].ranks.size()) {
                const size_t core = choose(i, false);
                GPURUN_ASSERT(core != kNobody);
                move(core, i);
            }
    }

  private:
    bool can_give(size_t owner, bool fairly) const {
        const Group& group = groups_[owner];
        return group.cores.size() > (fairly ? group.fair : group.ranks.size());
    }

    // The core that `needy` should get next: a near one rather than a far one, a free one rather than another
    // group's. While it is fair, only near ones.
    size_t choose(size_t needy, bool fairly) const {
        const Cores& near = groups_[needy].near;
        const size_t home = near[near.size() / 2];
        std::tuple<bool, bool, size_t> best_cost{true, true, SIZE_MAX};
        size_t best = kNobody;
        for (size_t core = 0; core < owner_.size(); ++core) {
            const bool far = !std::binary_search(near.begin(), near.end(), core);
            if (owner_[core] == needy || (far && fairly) ||
                (owner_[core] != kNobody && !can_give(owner_[core], fairly)))
                continue;
            const std::tuple cost{far, owner_[core] != kNobody, core > home ? core - home : home - core};
            if (best == kNobody || cost < best_cost) {
                best = core;
                best_cost = cost;
            }
        }
        return best;
    }

    void move(size_t core, size_t to) {
        if (owner_[core] != kNobody)
            std::erase(groups_[owner_[core]].cores, core);
        owner_[core] = to;
        Cores& cores = groups_[to].cores;
        cores.insert(std::upper_bound(cores.begin(), cores.end(), core), core);
    }

    std::vector<Group>& groups_;
    std::vector<size_t> owner_; // of each core, an index into groups_
};

// The `index`-th of `shares` equal parts of `items`, neighbours together.
Cores part_of(const Cores& items, size_t index, size_t shares) {
    const auto at = [&](size_t i) { return items.begin() + static_cast<std::ptrdiff_t>(i * items.size() / shares); };
    return Cores(at(index), at(index + 1));
}

// What is divided: cores while there are as many as ranks, then hardware threads. Neighbours stand together.
std::vector<Share> units_of(const platform::Machine& machine, size_t ranks) {
    std::vector<Share> units;
    for (size_t core = 0; core < machine.cores.size(); ++core) {
        const std::vector<int>& cpus = machine.cores[core].cpus;
        if (ranks <= machine.cores.size())
            units.push_back({{core}, cpus});
        else
            for (const int cpu : cpus)
                units.push_back({{core}, {cpu}});
    }
    return units;
}

Cores units_near(const std::vector<Share>& units, const Cores& near) {
    Cores result;
    for (size_t unit = 0; unit < units.size(); ++unit)
        if (std::binary_search(near.begin(), near.end(), units[unit].cores[0]))
            result.push_back(unit);
    return result;
}

Share joined(const std::vector<Share>& units, const Cores& which) {
    Share share;
    for (const size_t unit : which) {
        if (share.cores.empty() || share.cores.back() != units[unit].cores[0])
            share.cores.push_back(units[unit].cores[0]);
        share.cpus.insert(share.cpus.end(), units[unit].cpus.begin(), units[unit].cpus.end());
    }
    return share;
}

} // namespace

std::vector<Share> share_cores(const platform::Machine& machine, const std::vector<Cores>& near) {
    const std::vector<Share> units = units_of(machine, near.size());
    std::vector<Cores> near_units;
    for (const Cores& cores : near)
        near_units.push_back(units_near(units, cores));
    std::vector<Group> groups = group_ranks(near_units);
    const bool enough = near.size() <= units.size();
    if (enough) {
        Division division(groups, units.size());
        division.be_fair();
        division.leave_nobody_without();
    }
    std::vector<Share> shares(near.size());
    for (const Group& group : groups)
        for (size_t i = 0; i < group.ranks.size(); ++i)
            shares[group.ranks[i]] = joined(units, enough ? part_of(group.cores, i, group.ranks.size()) : group.near);
    return shares;
}

} // namespace gpurun::launcher
