// Binding on machines made up here.
#include "binding.hpp"
#include "invariants.hpp"
#include "platform/topology.hpp"

#include <numeric>

namespace gpurun::test::binding {

using namespace launcher;
using gpurun::platform::Machine;
using gpurun::platform::synthetic_machine;

namespace {

using Cpus = std::vector<int>;

std::vector<Device> unknown(size_t ranks) { return std::vector<Device>(ranks); }

std::vector<Device> on(std::initializer_list<const char*> bus_ids) {
    std::vector<Device> devices;
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

std::vector<Binding> place(const Machine& machine, const std::vector<Device>& devices) {
    std::vector<Binding> bindings = bind_ranks(machine, devices, BindTo::kCore, {});
    check_binding(machine, devices, bindings);
    return bindings;
}

} // namespace

TEST_SUITE_BEGIN("binding");

TEST_CASE("ranks without a GPU are spread over the machine, one alone gets all of it") {
    const Machine machine = must(synthetic_machine("numa:2 core:4 pu:2"));
    const auto two = place(machine, unknown(2));
    CHECK(two[0].cpus == Cpus{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(two[0].node == 0);
    CHECK(two[1].node == 1);
    const auto one = place(machine, unknown(1));
    CHECK(one[0].cpus.size() == 16);
    CHECK(one[0].node == -1);
}

TEST_CASE("every number of ranks on every machine keeps the rules") {
    for (const char* description : {"core:1 pu:1", "core:2 pu:1", "numa:2 core:4 pu:2", "pack:2 numa:2 core:3 pu:4"}) {
        const Machine machine = must(synthetic_machine(description));
        for (size_t ranks = 1; ranks <= 40; ++ranks) {
            CAPTURE(description);
            CAPTURE(ranks);
            const auto bindings = place(machine, unknown(ranks));
            size_t fewest = SIZE_MAX;
            size_t most = 0;
            for (const Binding& binding : bindings) {
                fewest = std::min(fewest, binding.cpus.size());
                most = std::max(most, binding.cpus.size());
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
    const auto bindings = place(machine, devices);
    CHECK(bindings[0].cpus == Cpus{4, 5});
    CHECK(bindings[1].cpus == Cpus{0, 1, 2, 3});
    CHECK(bindings[2].cpus == Cpus{6, 7});
    CHECK(bindings[0].node == 1);
    CHECK(bindings[1].node == 0);
}

TEST_CASE("more ranks than near cores take further ones rather than share") {
    Machine machine = must(synthetic_machine("numa:2 core:4 pu:2"));
    put(machine, "a", 0, 2);
    const auto bindings = place(machine, on({"a", "a", "a"}));
    CHECK(bindings[0].cpus.size() == 2);
    CHECK(bindings[2].node == 0); // the GPU's, not the core's
}

TEST_CASE("a GPU whose surroundings contain another's leaves it its cores") {
    Machine machine = must(synthetic_machine("numa:2 core:4 pu:1"));
    put(machine, "inner", 0, 2);
    put(machine, "outer", 0, 4);
    const auto devices = on({"outer", "inner"});
    const auto bindings = place(machine, devices);
    CHECK(bindings[1].cpus == Cpus{0, 1});
    CHECK(bindings[0].cpus == Cpus{2, 3});
}

TEST_CASE("a wide neighbourhood gets cores back from the narrow one that took them all") {
    Machine machine = must(synthetic_machine("core:4 pu:1"));
    put(machine, "inner", 0, 3);
    put(machine, "outer", 0, 4);
    const auto devices = on({"inner", "outer", "outer", "outer"});
    const auto bindings = place(machine, devices);
    for (size_t rank = 0; rank < 4; ++rank)
        CHECK(is_near(machine, devices[rank], bindings[rank]));
}

TEST_CASE("a GPU that hwloc does not know, or knows nothing of, counts as everywhere") {
    Machine machine = must(synthetic_machine("core:4 pu:1"));
    machine.near["nothing"] = {};
    const auto bindings = place(machine, on({"nothing", "unheard of"}));
    CHECK(bindings[0].cpus.size() == 2);
    CHECK(bindings[1].cpus.size() == 2);
}

TEST_CASE("a GPU of which nothing is known gets a fair share beside those that are known") {
    Machine machine = must(synthetic_machine("numa:2 core:9 pu:1"));
    put(machine, "a", 0, 9);
    put(machine, "b", 9, 9);
    const auto bindings = place(machine, on({"a", "b", "unheard of"}));
    for (const Binding& binding : bindings)
        CHECK(binding.cpus.size() == 6);
    CHECK(bindings[0].node == 0);
    CHECK(bindings[1].node == 1);
    CHECK(bindings[2].node == -1);
}

TEST_CASE("bound to numa, a rank has cores of one NUMA node, and those that have a choice take the emptiest") {
    Machine machine = must(synthetic_machine("numa:4 core:4 pu:2"));
    put(machine, "a", 0, 4);
    put(machine, "package", 0, 8);
    const auto devices = on({"package", "a", "unheard of"});
    const auto bindings = bind_ranks(machine, devices, BindTo::kNuma, {});
    check_binding(machine, devices, bindings);
    CHECK(bindings[0].node == 1);
    CHECK(bindings[1].node == 0);
    CHECK(bindings[2].node == 2);
    for (const Binding& binding : bindings) {
        CHECK(binding.cpus.size() == 8);
        CHECK(binding.memory == std::vector<int>{binding.node});
    }
}

TEST_CASE("bound to numa, ranks of one node have equal shares of it") {
    Machine machine = must(synthetic_machine("numa:2 core:4 pu:2"));
    put(machine, "a", 0, 4);
    const auto bindings = bind_ranks(machine, on({"a", "a"}), BindTo::kNuma, {});
    CHECK(bindings[0].cpus == Cpus{0, 1, 2, 3});
    CHECK(bindings[1].cpus == Cpus{4, 5, 6, 7});
}

TEST_CASE("memory is preferred, demanded or left alone, as asked, and demanded of several nodes if need be") {
    Machine machine = must(synthetic_machine("numa:2 core:2 pu:1"));
    put(machine, "a", 2, 2);
    const auto memory_of = [&](const char* bus_id, BindTo bind_to, std::optional<Membind> membind) {
        return bind_ranks(machine, on({bus_id}), bind_to, membind)[0];
    };
    CHECK(memory_of("a", BindTo::kCore, {}).memory == Cpus{1});
    CHECK_FALSE(memory_of("a", BindTo::kCore, {}).strict_memory);
    CHECK(memory_of("a", BindTo::kCore, Membind::kBind).memory == Cpus{1});
    CHECK(memory_of("a", BindTo::kCore, Membind::kBind).strict_memory);
    CHECK(memory_of("a", BindTo::kCore, Membind::kNone).memory.empty());
    CHECK(memory_of("a", BindTo::kNone, {}).memory.empty());
    CHECK(memory_of("a", BindTo::kNone, Membind::kPrefer).memory == Cpus{1});
    CHECK(memory_of("unheard of", BindTo::kCore, {}).memory.empty());
    CHECK(memory_of("unheard of", BindTo::kCore, Membind::kBind).memory == Cpus{0, 1});
}

TEST_CASE("a rank may start as many threads as it has cores, and one where cores are shared") {
    const Machine machine = must(synthetic_machine("core:4 pu:2"));
    CHECK(place(machine, unknown(1))[0].threads == 4);
    CHECK(place(machine, unknown(2))[1].threads == 2);
    CHECK(place(machine, unknown(5))[0].threads == 1);
    CHECK(bind_ranks(machine, unknown(2), BindTo::kNone, {})[0].threads == 2);
    CHECK(bind_ranks(machine, unknown(9), BindTo::kNone, {})[0].threads == 1);
}

TEST_CASE("--map gives each rank what it says") {
    const Machine machine = must(synthetic_machine("numa:2 core:4 pu:2"));
    PlacementOptions options;
    options.map = must(parse_map("0:0-3+8:1,1:9-11"));
    const auto bindings = must(bind_as_mapped(machine, options));
    CHECK(bindings[0].cpus == Cpus{0, 1, 2, 3, 8});
    CHECK(bindings[0].node == 1);
    CHECK(bindings[0].threads == 3);
    CHECK(bindings[1].cpus == Cpus{9, 10, 11});
    CHECK(bindings[1].node == 1); // that of its CPUs
    CHECK(bindings[1].memory == Cpus{1});
    CHECK(bindings[1].threads == 2);
}

TEST_CASE("--map with a CPU or a node that is not there, or a CPU for two ranks, is an error that names it") {
    const Machine machine = must(synthetic_machine("numa:2 core:2 pu:1"));
    const auto detail = [&](const char* map, bool oversubscribe) {
        PlacementOptions options;
        options.map = must(parse_map(map));
        options.oversubscribe = oversubscribe;
        const auto bindings = bind_as_mapped(machine, options);
        return bindings ? std::string() : bindings.error().detail;
    };
    CHECK(detail("0:4", false).find("no CPU 4") != std::string::npos);
    CHECK(detail("0:0:2", false).find("no NUMA node 2") != std::string::npos);
    CHECK(detail("0:0-1,1:1-2", false).find("ranks 0 and 1 would share CPU 1") != std::string::npos);
    CHECK(detail("0:0-1,1:1-2", true).empty());
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
    for (const Binding& binding : bind_ranks(machine, on({"a", "a"}), BindTo::kNone, {})) {
        CHECK(binding.cpus.empty());
        CHECK(binding.memory.empty());
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::binding
