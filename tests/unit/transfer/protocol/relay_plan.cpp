// How a relayed message is cut into chunks.
#include "support/unit.hpp"
#include "transfer/protocol/relay_pipeline.hpp"

using namespace gpurun;
using namespace gpurun::transfer;

constexpr Copiers kAll[] = {Copiers::kCpus, Copiers::kCpuAndStream, Copiers::kStreams, Copiers::kWithinDevice};

// Gives the length of the chunks between nodes.
static auto far_chunk(bool is_behind) {
    return [is_behind](uint64_t bytes, uint64_t largest = platform::kRelayBufferBytes) {
        return plan_far_relay(bytes, largest, is_behind).chunk_bytes;
    };
}

TEST_SUITE_BEGIN("relay plan");

TEST_CASE("every byte is in a chunk, and every chunk fits its buffer") {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{4097}, uint64_t{65536}, uint64_t{1} << 20,
                                 (uint64_t{9} << 20) + 3, uint64_t{1} << 40}) {
        CAPTURE(bytes);
        for (const Copiers copiers : kAll) {
            const RelayPlan plan = plan_relay(RelayPool::kHost, copiers, bytes, platform::kRelayBufferBytes);
            CHECK(plan.chunk_bytes <= platform::kRelayBufferBytes);
            CHECK(plan.chunks() * plan.chunk_bytes >= bytes);
            CHECK((plan.chunks() - 1) * plan.chunk_bytes < bytes);
        }
    }
}

TEST_CASE("a large message keeps at least three chunks in flight") {
    for (const Copiers copiers : kAll)
        CHECK(plan_relay(RelayPool::kHost, copiers, uint64_t{1} << 28, platform::kRelayBufferBytes).chunks() >= 3);
    for (const uint64_t bytes : {uint64_t{256} << 10, uint64_t{1} << 20})
        CHECK(plan_relay(RelayPool::kHost, Copiers::kCpus, bytes, platform::kRelayBufferBytes).chunks() >= 3);
    static_assert(platform::kRelayBuffers > 3);
}

TEST_CASE("chunks are as long as suits who copies them") {
    const auto chunk = [](Copiers copiers, uint64_t bytes) {
        return plan_relay(RelayPool::kHost, copiers, bytes, platform::kRelayBufferBytes).chunk_bytes;
    };
    CHECK(chunk(Copiers::kCpus, 256 << 10) == 64 << 10);
    CHECK(chunk(Copiers::kCpus, 16 << 20) == 256 << 10);
    CHECK(chunk(Copiers::kCpuAndStream, 1 << 20) == 256 << 10);
    CHECK(chunk(Copiers::kCpuAndStream, 16 << 20) == 2 << 20);
    CHECK(chunk(Copiers::kStreams, 4 << 20) == 1 << 20);
    CHECK(chunk(Copiers::kStreams, 16 << 20) == 4 << 20);
    CHECK(chunk(Copiers::kStreams, (16 << 20) + 3) == (4 << 20) + (64 << 10)); // four of them
    CHECK(chunk(Copiers::kWithinDevice, 16 << 20) == platform::kRelayBufferBytes);
}

TEST_CASE("the largest chunk that was asked for is kept to") {
    CHECK(plan_relay(RelayPool::kDevice, Copiers::kWithinDevice, uint64_t{1} << 28, 4096).chunk_bytes == 4096);
}

TEST_CASE("between nodes a message has as many chunks as there are buffers, until they are large") {
    const auto chunk = far_chunk(false);
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

TEST_CASE("between nodes a message behind another has as few chunks as large ones allow") {
    const auto chunk = far_chunk(true);
    CHECK(chunk(1) == 64 << 10);
    CHECK(chunk(256 << 10) == 256 << 10);
    CHECK(chunk((256 << 10) + 8) == 260 << 10);
    CHECK(chunk(1 << 20) == 512 << 10);
    CHECK(chunk(16 << 20) == 2 << 20);
    CHECK(chunk(1 << 20, 64 << 10) == 64 << 10);
}

TEST_SUITE_END();
