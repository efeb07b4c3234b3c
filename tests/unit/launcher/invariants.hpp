// What holds for every binding, whatever the machine.
#pragma once

#include "binding.hpp"
#include "support/unit.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace gpurun::test {

inline std::map<int, size_t> cores_by_cpu(const platform::Machine& machine) {
    std::map<int, size_t> core_of;
    for (size_t core = 0; core < machine.cores.size(); ++core)
        for (const int cpu : machine.cores[core].cpus)
            core_of[cpu] = core;
    return core_of;
}

// Each rank has CPUs of the machine, whole cores while there are enough, and disjoint from the others' while there are
// as many CPUs as ranks. It is to start as many threads as it has cores.
inline void check_binding(const platform::Machine& machine, const std::vector<launcher::Device>& devices,
                          const std::vector<launcher::Binding>& bindings) {
    REQUIRE(bindings.size() == devices.size());
    const std::map<int, size_t> core_of = cores_by_cpu(machine);
    const bool enough = devices.size() <= machine.cores.size();
    const bool enough_threads = devices.size() <= machine.cpus();
    std::set<int> taken;
    for (size_t rank = 0; rank < bindings.size(); ++rank) {
        CAPTURE(rank);
        const std::vector<int>& cpus = bindings[rank].cpus;
        REQUIRE_FALSE(cpus.empty());
        std::set<size_t> cores;
        for (const int cpu : cpus) {
            REQUIRE(core_of.count(cpu) == 1);
            cores.insert(core_of.at(cpu));
            const bool fresh = taken.insert(cpu).second;
            if (enough_threads)
                CHECK(fresh);
        }
        size_t threads = 0;
        for (const size_t core : cores)
            threads += machine.cores[core].cpus.size();
        if (enough)
            CHECK(threads == cpus.size());
        CHECK(bindings[rank].threads == (enough ? cores.size() : 1));
    }
}

// Whether all CPUs of the rank are among those near its device.
inline bool is_near(const platform::Machine& machine, const launcher::Device& device,
                    const launcher::Binding& binding) {
    const auto found = machine.near.find(device.bus_id);
    REQUIRE(found != machine.near.end());
    std::set<int> near;
    for (const size_t core : found->second)
        near.insert(machine.cores[core].cpus.begin(), machine.cores[core].cpus.end());
    return std::all_of(binding.cpus.begin(), binding.cpus.end(), [&](int cpu) { return near.count(cpu) == 1; });
}

} // namespace gpurun::test
