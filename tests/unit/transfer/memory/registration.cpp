// What of a peer's memory is mapped, and what is tried again. Two ranks, each with an emulated device.
#include "test_job.hpp"

using namespace gpurun;
using namespace gpurun::test;
using transfer::Quiescence;
using transfer::RemoteBuffer;

TEST_SUITE_BEGIN("registration");

// Where the peer's memory lies, other memory of its was mapped, which cannot be closed while a graph runs.
TEST_CASE("memory that a graph keeps from being mapped is mapped later, also if the graph was launched meanwhile") {
    constexpr size_t kBytes = 1 << 20;
    TestJob job(2, Setting{});
    transfer::Registration& exporter = job.rank(1).peer(0).memory();
    transfer::Registration& importer = job.rank(0).peer(1).memory();
    const RemoteBuffer before = exporter.describe(job.rank(1).on_device(kBytes));
    RemoteBuffer source = exporter.describe(job.rank(1).on_device(kBytes));
    REQUIRE(importer.maps(before));
    source.allocation_base = before.allocation_base;
    int quiet_for = 1; // looks
    job.rank(0).resources().try_quiescence = [&]() -> Quiescence {
        return quiet_for-- > 0 ? Quiescence(std::in_place) : std::nullopt;
    };
    CHECK_FALSE(importer.maps(source));
    CHECK(quiet_for < 0);
    quiet_for = 100;
    CHECK(importer.maps(source));
}

TEST_SUITE_END();
