// What is remembered of addresses, by several threads at once.
#include "device/cuda/known_allocations.hpp"
#include "support/unit.hpp"

#include <thread>
#include <vector>

using gpurun::device::cuda::KnownAllocations;

TEST_SUITE_BEGIN("known allocations");

TEST_CASE("what was kept of an address is found until another takes its place") {
    KnownAllocations known;
    CHECK_FALSE(known.find(0x1000));
    known.keep(0x1000, {7, 0x800, 4096});
    const auto found = known.find(0x1000);
    REQUIRE(found);
    CHECK(found->id == 7);
    CHECK(found->start == 0x800);
    CHECK(found->size == 4096);
    CHECK_FALSE(known.find(0x1008));
    known.keep(0x1000, {8, 0x1000, 64});
    CHECK(known.find(0x1000)->id == 8);
    for (uintptr_t address = 0x2000; address < 0x12000; address += 8)
        known.keep(address, {9, address, 8});
    const auto later = known.find(0x1000);
    CHECK((!later || later->id == 8));
}

TEST_CASE("threads that keep and find at once never see halves of two allocations") {
    KnownAllocations known;
    std::vector<std::thread> threads;
    std::atomic<uint64_t> torn{0}, found{0};
    for (uint64_t thread = 1; thread <= 3; ++thread)
        threads.emplace_back([&, thread] {
            for (uint64_t i = 1; i <= 20'000; ++i) {
                const uintptr_t address = 0x1000 + i % 3 * 8;
                const uint64_t id = i * 4 + thread;
                known.keep(address, {id, id * 3, id * 5});
                const auto seen = known.find(address);
                found += seen ? 1 : 0;
                torn += seen && (seen->start != seen->id * 3 || seen->size != seen->id * 5) ? 1 : 0;
            }
        });
    for (std::thread& each : threads)
        each.join();
    CHECK(torn == 0);
    CHECK(found > 0);
}
