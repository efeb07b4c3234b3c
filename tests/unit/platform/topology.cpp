// What is read from hwloc, with machines in its synthetic form.
#include "platform/topology.hpp"
#include "support/unit.hpp"

using namespace gpurun::platform;
using gpurun::base::Status;
using gpurun::test::must;

TEST_SUITE_BEGIN("topology");

TEST_CASE("cores, their hardware threads and their NUMA nodes") {
    const Machine machine = must(synthetic_machine("numa:2 core:3 pu:2"));
    REQUIRE(machine.cores.size() == 6);
    CHECK(machine.memory_nodes == std::set<int>{0, 1});
    CHECK(machine.cpus() == 12);
    CHECK(machine.cores[0].cpus == std::vector<int>{0, 1});
    CHECK(machine.cores[2].node == 0);
    CHECK(machine.cores[3].node == 1);
}

TEST_CASE("this machine has at least one core, and each knows its node") {
    const Machine machine = must(discover_machine(true));
    REQUIRE_FALSE(machine.cores.empty());
    for (const Core& core : machine.cores) {
        CHECK_FALSE(core.cpus.empty());
        CHECK(core.node >= 0);
    }
}

TEST_CASE("what describes no machine is an error") {
    CHECK_STATUS(synthetic_machine("nonsense:x"), Status::kArgument);
    CHECK_FALSE(static_cast<bool>(read_machine("/nowhere/machine.xml")));
}

TEST_CASE("a bus id has one spelling") {
    CHECK(normal_bus_id("00000000:1B:00.0") == "0000:1b:00.0");
    CHECK(normal_bus_id("0000:1b:00.0") == "0000:1b:00.0");
    CHECK(normal_bus_id("0018:01:00.0") == "0018:01:00.0");
    CHECK(normal_bus_id("1b:00.0") == "0000:1b:00.0");
    for (const char* other : {"1b:00", "1b.0", "00.0", "1:2:3:4.0", "0000:1b:00.8", "0000:1b:0x0.0", "0000:1b: 0.0",
                              "0000::00.0", "000000001:1b:00.0", "GPU-1.0"}) {
        CAPTURE(other);
        CHECK(normal_bus_id(other).empty());
    }
    CHECK(normal_bus_id("0000:1b:00.0 and more").empty());
    CHECK(normal_bus_id("").empty());
}

TEST_SUITE_END();
