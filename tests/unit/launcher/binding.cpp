// Placement on machines made up here.
#include "placement.hpp"
#include "invariants.hpp"
#include "platform/topology.hpp"

#include <numeric>

using namespace gpurun::launcher;
using gpurun::platform::Machine;
using gpurun::platform::synthetic_machine;
using gpurun::test::check_placement;
using gpurun::test::is_near;
using gpurun::test::must;

namespace {

using Cpus = std::vector<int>;

std::vector<RankDevice> unknown(size_t ranks) { return std::vector<RankDevice>(ranks); }

std::vector<RankDevice> on(std::initializer_list<const char*> bus_ids) {
    std::vector<RankDevice> devices;
    for (const char* bus_id : bus_ids)
        devices.push_back({"cuda:GPU", bus_id});
    return devices;
}

// `count` cores from `first` on are near the device.
void put(Machine& machine, const char* bus_id, size_t first, size_t count) {
    std::vector<size_t>& near = machine.near[bus_id];
    near.resize(count);
    std::iota(near.begin(), near.end(), first);
}

std::vector<RankPlacement> place(const Machine& machine, const std::vector<RankDevice>& devices) {
    std::vector<RankPlacement> placements = place_ranks(machine, devices, BindTo::kCore);
    check_placement(machine, devices, placements);
    return placements;
}

} // namespace

TEST_SUITE_BEGIN("placement");

TEST_CASE("ranks without a GPU are spread over the machine, one alone gets all of it") {
    const Machine machine = must(synthetic_machine("numa:2 core:4 pu:2"));
    const auto two = place(machine, unknown(2));
    CHECK(two[0].cpus == Cpus{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(two[0].memory_node == 0);
    CHECK(two[1].memory_node == 1);
    const auto one = place(machine, unknown(1));
    CHECK(one[0].cpus.size() == 16);
    CHECK(one[0].memory_node == -1);
}

TEST_CASE("every number of ranks on every machine keeps the rules") {
    for (const char* description : {"core:1 pu:1", "core:2 pu:1", "numa:2 core:4 pu:2", "pack:2 numa:2 core:3 pu:4"}) {
        const Machine machine = must(synthetic_machine(description));
        for (size_t ranks = 1; ranks <= 40; ++ranks) {
            CAPTURE(description);
            CAPTURE(ranks);
            const auto placements = place(machine, unknown(ranks));
            size_t fewest = SIZE_MAX;
            size_t most = 0;
            for (const RankPlacement& placement : placements) {
                fewest = std::min(fewest, placement.cpus.size());
                most = std::max(most, placement.cpus.size());
            }
            const size_t threads_a_core = machine.cores[0].cpus.size();
            CHECK(most - fewest <= threads_a_core);
        }
    }
}

TEST_CASE("each rank is bound near its GPU, with memory there") {
    Machine machine = must(synthetic_machine("numa:2 core:4 pu:1"));
    put(machine, "a", 4, 4);
    put(machine, "b", 0, 4);
    const auto devices = on({"a", "b", "a"});
    const auto placements = place(machine, devices);
    CHECK(placements[0].cpus == Cpus{4, 5});
    CHECK(placements[1].cpus == Cpus{0, 1, 2, 3});
    CHECK(placements[2].cpus == Cpus{6, 7});
    CHECK(placements[0].memory_node == 1);
    CHECK(placements[1].memory_node == 0);
}

TEST_CASE("more ranks than near cores take further ones rather than share") {
    Machine machine = must(synthetic_machine("numa:2 core:4 pu:2"));
    put(machine, "a", 0, 2);
    const auto placements = place(machine, on({"a", "a", "a"}));
    CHECK(placements[0].cpus.size() == 2);
    CHECK(placements[2].memory_node == 0); // the GPU's, not the core's
}

TEST_CASE("a GPU whose surroundings contain another's leaves it its cores") {
    Machine machine = must(synthetic_machine("numa:2 core:4 pu:1"));
    put(machine, "inner", 0, 2);
    put(machine, "outer", 0, 4);
    const auto devices = on({"outer", "inner"});
    const auto placements = place(machine, devices);
    CHECK(placements[1].cpus == Cpus{0, 1});
    CHECK(placements[0].cpus == Cpus{2, 3});
}

TEST_CASE("a wide neighbourhood gets cores back from the narrow one that took them all") {
    Machine machine = must(synthetic_machine("core:4 pu:1"));
    put(machine, "inner", 0, 3);
    put(machine, "outer", 0, 4);
    const auto devices = on({"inner", "outer", "outer", "outer"});
    const auto placements = place(machine, devices);
    for (size_t rank = 0; rank < 4; ++rank)
        CHECK(is_near(machine, devices[rank], placements[rank]));
}

TEST_CASE("a GPU that hwloc does not know, or knows nothing of, counts as everywhere") {
    Machine machine = must(synthetic_machine("core:4 pu:1"));
    machine.near["nothing"] = {};
    const auto placements = place(machine, on({"nothing", "unheard of"}));
    CHECK(placements[0].cpus.size() == 2);
    CHECK(placements[1].cpus.size() == 2);
}

TEST_CASE("more ranks than cores share hardware threads, and more than these share everything") {
    const Machine machine = must(synthetic_machine("core:2 pu:2"));
    const auto four = place(machine, unknown(4));
    CHECK(four[3].cpus == Cpus{3});
    const auto many = place(machine, unknown(64));
    CHECK(many[63].cpus == Cpus{0, 1, 2, 3});
}

TEST_CASE("bound to none is not bound, and has no preferred memory") {
    Machine machine = must(synthetic_machine("numa:2 core:4 pu:1"));
    put(machine, "a", 0, 4);
    for (const RankPlacement& placement : place_ranks(machine, on({"a", "a"}), BindTo::kNone)) {
        CHECK(placement.cpus.empty());
        CHECK(placement.memory_node == -1);
    }
}

TEST_SUITE_END();
