// Persistent collectives: what they match, and when they can be started. The tests of each collective call it in this
// form, too (collectives.hpp).
#include "graphs.hpp"
#include "support/job.hpp"

#include <array>

namespace gpurun::test::persistent_collectives {

TEST_SUITE_BEGIN("persistent collectives");

TEST_CASE("a persistent broadcast sends what the root has at each start, in either order domain") {
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
        for (const size_t count : {size_t{1}, size_t{50'000}}) {
            Memory buffer(domain == GPURUN_HOST ? Kind::kPageable : Kind::kDevice, count);
            gpurun_request request = GPURUN_REQUEST_NULL;
            REQUIRE_OK(gpurun_bcast_init(buffer.get(), count, GPURUN_BYTE, 0, kWorld, domain, &request));
            for (uint64_t turn = 0; turn < 5; turn++) {
                const Bytes content = pattern(count, turn + 1);
                buffer.write(rank() == 0 ? content : Bytes(count, 0x77));
                REQUIRE_OK(gpurun_start(&request));
                REQUIRE_OK(gpurun_wait(&request, domain, nullptr));
                synchronize(domain);
                CHECK(first_difference(buffer.read(), content) == -1);
            }
            REQUIRE_OK(gpurun_request_free(&request));
        }
}

TEST_CASE("persistent collectives match blocking ones and requests of other ranks, in the order of the starts") {
    int32_t own = 0, sum = 0, prefix = 0;
    std::array<gpurun_request, 2> requests{};
    REQUIRE_OK(gpurun_allreduce_init(&own, &sum, 1, GPURUN_INT32, GPURUN_SUM, kWorld, GPURUN_HOST, &requests[0]));
    REQUIRE_OK(gpurun_scan_init(&own, &prefix, 1, GPURUN_INT32, GPURUN_SUM, kWorld, GPURUN_HOST, &requests[1]));
    for (int turn = 0; turn < 20; turn++) {
        own = turn + rank();
        sum = prefix = -1;
        if ((rank() + turn) % 2 == 0) {
            REQUIRE_OK(gpurun_startall(requests.size(), requests.data()));
            REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
        } else {
            REQUIRE_OK(gpurun_allreduce(&own, &sum, 1, GPURUN_INT32, GPURUN_SUM, kWorld, GPURUN_HOST));
            gpurun_request request = GPURUN_REQUEST_NULL;
            REQUIRE_OK(gpurun_iscan(&own, &prefix, 1, GPURUN_INT32, GPURUN_SUM, kWorld, GPURUN_HOST, &request));
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        }
        CHECK(sum == size() * turn + size() * (size() - 1) / 2);
        CHECK(prefix == (rank() + 1) * turn + rank() * (rank() + 1) / 2);
    }
    for (gpurun_request& each : requests)
        REQUIRE_OK(gpurun_request_free(&each));
}

TEST_CASE("a persistent barrier is passed when all have started it, and completes by tests") {
    gpurun_request request = GPURUN_REQUEST_NULL;
    REQUIRE_OK(gpurun_barrier_init(kWorld, GPURUN_HOST, &request));
    for (int turn = 0; turn < 10; turn++) {
        REQUIRE_OK(gpurun_start(&request));
        for (int done = 0; done == 0;)
            REQUIRE_OK(gpurun_test(&request, GPURUN_HOST, &done, nullptr));
    }
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr)); // inactive: complete
    REQUIRE_OK(gpurun_request_free(&request));
}

TEST_CASE("a persistent collective can be started when its communicator has been freed") {
    gpurun_comm comm = GPURUN_COMM_NULL;
    REQUIRE_OK(gpurun_comm_dup(kWorld, &comm));
    int32_t own = 1, sum = 0;
    gpurun_request request = GPURUN_REQUEST_NULL;
    REQUIRE_OK(gpurun_allreduce_init(&own, &sum, 1, GPURUN_INT32, GPURUN_SUM, comm, GPURUN_HOST, &request));
    REQUIRE_OK(gpurun_comm_free(&comm));
    for (own = 1; own < 4; own++) {
        REQUIRE_OK(gpurun_start(&request));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        CHECK(sum == own * size());
    }
    REQUIRE_OK(gpurun_request_free(&request));
}

TEST_CASE("a persistent collective that is active, or was freed, or lacks its buffer, is not started") {
    const Stream stream;
    void* memory = nullptr;
    REQUIRE_OK(gpurun_malloc(&memory, 64));
    gpurun_request barrier = GPURUN_REQUEST_NULL, broadcast = GPURUN_REQUEST_NULL;
    CHECK(gpurun_barrier_init(kWorld, stream, nullptr) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_bcast_init(memory, 64, GPURUN_BYTE, size(), kWorld, stream, &broadcast) == GPURUN_ERR_RANK);
    REQUIRE_OK(gpurun_barrier_init(kWorld, stream, &barrier));
    REQUIRE_OK(gpurun_bcast_init(memory, 64, GPURUN_BYTE, 0, kWorld, stream, &broadcast));
    REQUIRE_OK(gpurun_start(&barrier));
    CHECK(gpurun_start(&barrier) == GPURUN_ERR_REQUEST);
    REQUIRE_OK(gpurun_wait(&barrier, stream, nullptr));
    stream.synchronize();
    REQUIRE_OK(gpurun_free(memory));
    CHECK(gpurun_start(&broadcast) == GPURUN_ERR_BUFFER);
    REQUIRE_OK(gpurun_request_free(&broadcast));
    const gpurun_request freed = barrier;
    REQUIRE_OK(gpurun_start(&barrier)); // completes by itself
    REQUIRE_OK(gpurun_request_free(&barrier));
    barrier = freed;
    CHECK(gpurun_start(&barrier) == GPURUN_ERR_REQUEST);
    REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
}

TEST_CASE("a persistent collective is no part of a graph") {
    const Stream stream;
    if (!has_graphs())
        return;
    gpurun_request before = GPURUN_REQUEST_NULL, inside = GPURUN_REQUEST_NULL;
    REQUIRE_OK(gpurun_barrier_init(kWorld, stream, &before));
    REQUIRE_OK(gpurun_capture_begin(stream));
    CHECK(gpurun_start(&before) == GPURUN_ERR_UNSUPPORTED);
    CHECK(gpurun_barrier_init(kWorld, stream, &inside) == GPURUN_ERR_UNSUPPORTED);
    gpurun_graph graph{};
    REQUIRE_OK(gpurun_capture_end(stream, &graph));
    REQUIRE_OK(gpurun_graph_destroy(graph));
    REQUIRE_OK(gpurun_start(&before));
    REQUIRE_OK(gpurun_wait(&before, stream, nullptr));
    stream.synchronize();
    REQUIRE_OK(gpurun_request_free(&before));
}

TEST_SUITE_END();

} // namespace gpurun::test::persistent_collectives
