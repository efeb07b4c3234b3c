// Ranks that share a device, with and without MPS.
#include "transfer/channel/gpu_sharing.hpp"
#include "support/unit.hpp"

#include "device/device.hpp"

#include <cstring>
#include <initializer_list>

using namespace gpurun;
using gpurun::test::must;

namespace {

// A job whose ranks have the GPUs with these numbers.
platform::JobSegment job_on(std::initializer_list<uint8_t> gpus) {
    platform::JobSegment job = must(platform::JobSegment::create(static_cast<uint32_t>(gpus.size()), 1));
    uint32_t rank = 0;
    for (const uint8_t gpu : gpus) {
        device::Identity identity{device::Kind::kCuda, gpu, {}};
        identity.uuid.back() = gpu;
        std::memcpy(job.rank(rank++).device.data(), &identity, sizeof identity);
    }
    return job;
}

} // namespace

TEST_SUITE_BEGIN("gpu sharing");

TEST_CASE("ranks that have the same device share it") {
    const platform::JobSegment job = job_on({0, 1, 2, 1});
    CHECK(transfer::ranks_on_device(job, 0) == 1);
    CHECK(transfer::ranks_on_device(job, 1) == 2);
    CHECK(transfer::ranks_on_device(job, 2) == 1);
    CHECK(transfer::ranks_on_device(job, 3) == 2);
    CHECK(transfer::ranks_on_device(job_on({0}), 0) == 1);
}

TEST_CASE("devices of the same name on different nodes are different ones") {
    const platform::JobSegment job = job_on({0, 0, 0});
    job.rank(2).node = 1;
    CHECK(transfer::ranks_on_device(job, 0) == 2);
    CHECK(transfer::ranks_on_device(job, 2) == 1);
}

TEST_CASE("ranks that share a device take turns on it unless MPS serves it") {
    const platform::JobSegment job = job_on({0, 0, 1});
    CHECK(transfer::takes_turns(job, false, 0));
    CHECK(transfer::takes_turns(job, false, 1));
    CHECK_FALSE(transfer::takes_turns(job, false, 2));
    CHECK_FALSE(transfer::takes_turns(job, true, 0));
}

TEST_SUITE_END();
