// How a relayed message is cut into chunks.
#include "support/unit.hpp"
#include "transfer/protocol/relay_pipeline.hpp"

using namespace gpurun;
using namespace gpurun::transfer;

TEST_SUITE_BEGIN("relay plan");

TEST_CASE("every byte is in a chunk, and every chunk fits its buffer") {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{4097}, uint64_t{65536}, uint64_t{1} << 20,
                                 (uint64_t{9} << 20) + 3, uint64_t{1} << 40}) {
        CAPTURE(bytes);
        const RelayPlan plan = plan_relay(RelayPool::kHost, bytes, platform::kRelayBufferBytes);
        CHECK(plan.chunk_bytes <= platform::kRelayBufferBytes);
        CHECK(plan.chunks() * plan.chunk_bytes >= bytes);
        CHECK((plan.chunks() - 1) * plan.chunk_bytes < bytes);
    }
}

TEST_CASE("a large message keeps at least three chunks in flight") {
    for (const uint64_t bytes : {uint64_t{256} << 10, uint64_t{1} << 20, uint64_t{1} << 28})
        CHECK(plan_relay(RelayPool::kHost, bytes, platform::kRelayBufferBytes).chunks() >= 3);
    static_assert(platform::kRelayBuffers > 3);
}

TEST_CASE("the largest chunk that was asked for is kept to") {
    CHECK(plan_relay(RelayPool::kDevice, uint64_t{1} << 28, 4096).chunk_bytes == 4096);
}

TEST_CASE("between nodes a message has as many chunks as there are buffers, until they are large") {
    const auto chunk = [](uint64_t bytes, uint64_t largest = platform::kRelayBufferBytes) {
        return plan_far_relay(bytes, largest).chunk_bytes;
    };
    CHECK(chunk(1) == 64 << 10);
    CHECK(chunk(512 << 10) == 128 << 10);
    CHECK(chunk((512 << 10) + 8) == 132 << 10);
    CHECK(chunk(1 << 20) == 256 << 10);
    CHECK(chunk(2 << 20) == 512 << 10);
    CHECK(chunk(4 << 20) == 512 << 10);
    CHECK(chunk(16 << 20) == 2 << 20);
    CHECK(chunk(uint64_t{1} << 30) == platform::kRelayBufferBytes);
    CHECK(chunk(16 << 20, 512 << 10) == 512 << 10);
}

TEST_SUITE_END();
