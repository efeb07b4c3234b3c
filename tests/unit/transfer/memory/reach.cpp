#include "test_job.hpp"

using namespace gpurun;
using namespace gpurun::test;

TEST_SUITE_BEGIN("reach");

// Freeing memory may wait for the whole device, as a seed has it, and what the stream waits for may need this rank.
TEST_CASE("whether direct copies work is found out while a stream is held") {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        Setting setting;
        setting.settings.emulated_seed = seed;
        TestJob job(2, setting);
        TestRank& rank = job.rank(0);
        const HeldStream gate(*rank.device, must(rank.device->create_stream()));
        CHECK(transfer::is_direct(rank.peer(1).memory().reach()));
    }
}
