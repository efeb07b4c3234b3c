// Persistent requests: prepared once, started many times.
#include "support/job.hpp"

#include <cstring>

namespace gpurun::test::persistent {

namespace {

constexpr int kData = 1, kGo = 2;
constexpr size_t kLarge = 300000;

uint64_t seed_of(int from, int round) { return static_cast<uint64_t>(from) * 10000 + static_cast<uint64_t>(round); }

// A pair of persistent requests with the partner, and their buffers.
struct Pair {
    Pair(Kind kind, size_t bytes, gpurun_stream domain) : outgoing(kind, bytes), incoming(kind, bytes) {
        REQUIRE_OK(
            gpurun_recv_init(incoming.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain, &requests[0]));
        REQUIRE_OK(
            gpurun_send_init(outgoing.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain, &requests[1]));
        CHECK(requests[0].id != 0);
        CHECK(requests[1].id != 0);
    }
    ~Pair() {
        for (gpurun_request& request : requests) {
            CHECK(gpurun_request_free(&request) == GPURUN_OK);
            CHECK(request.id == 0);
        }
    }

    Memory outgoing, incoming;
    gpurun_request requests[2]{};
};

// What is issued in `domain` before the start is sent, what is issued in `end` after the wait finds the message.
void exchange(Pair& pair, int round, gpurun_stream domain, gpurun_stream end) {
    const size_t bytes = pair.outgoing.size();
    const Bytes content = pattern(bytes, seed_of(rank(), round));
    const gpurun_request before[2] = {pair.requests[0], pair.requests[1]};
    Bytes got(bytes);
    gpurun_message_status statuses[2]{};
    REQUIRE_OK(gpurun_memcpy(pair.outgoing.get(), content.data(), bytes, domain));
    REQUIRE_OK(gpurun_startall(2, pair.requests));
    REQUIRE_OK(gpurun_waitall(2, pair.requests, end, statuses));
    REQUIRE_OK(gpurun_memset(pair.outgoing.get(), 0xff, bytes, end));
    REQUIRE_OK(gpurun_memcpy(got.data(), pair.incoming.get(), bytes, end));
    synchronize(end);
    CHECK(statuses[0].source == partner());
    CHECK(statuses[0].bytes == bytes);
    CHECK(pair.requests[0].id == before[0].id);
    CHECK(pair.requests[1].id == before[1].id);
    CHECK(first_difference(got, pattern(bytes, seed_of(partner(), round))) == -1);
}

} // namespace

TEST_SUITE_BEGIN("persistent");

TEST_CASE("a persistent pair is started and completed hundreds of times, in all order domains") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream first, second;
    for (const size_t bytes : {size_t{0}, size_t{64}, size_t{4097}, kLarge})
        for (const Kind kind : {Kind::kDevice, Kind::kOrdered, Kind::kPageable})
            for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(first)}) {
                CAPTURE(bytes);
                CAPTURE(name(kind));
                CAPTURE((domain == GPURUN_HOST));
                Pair pair(kind, bytes, domain);
                for (int round = 0; round < 30; round++) {
                    const gpurun_stream end = round % 3 == 0   ? GPURUN_HOST
                                              : round % 3 == 1 ? static_cast<gpurun_stream>(first)
                                                               : static_cast<gpurun_stream>(second);
                    exchange(pair, round, domain, end);
                }
            }
    Pair pair(Kind::kPageable, 100, GPURUN_HOST);
    for (int round = 0; round < 1000; round++)
        exchange(pair, round, GPURUN_HOST, GPURUN_HOST);
}

TEST_CASE("gpurun_startall starts many, and they match in the order of the array") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kCount = 20;
    uint32_t numbers[kCount];
    gpurun_request requests[kCount];
    for (size_t i = 0; i < kCount; i++)
        if (rank() % 2 == 0)
            REQUIRE_OK(
                gpurun_send_init(&numbers[i], 1, GPURUN_UINT32, partner(), kData, kWorld, GPURUN_HOST, &requests[i]));
        else
            REQUIRE_OK(gpurun_recv_init(&numbers[i], 1, GPURUN_UINT32, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, kWorld,
                                        GPURUN_HOST, &requests[i]));
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < kCount; i++)
            numbers[i] = rank() % 2 == 0 ? round * 100 + i : ~0u;
        REQUIRE_OK(gpurun_startall(kCount, requests));
        REQUIRE_OK(gpurun_waitall(kCount, requests, GPURUN_HOST, nullptr));
        for (uint32_t i = 0; i < kCount; i++)
            CHECK(numbers[i] == round * 100 + i);
        if (rank() % 2 == 0) // the wildcards of the next round must not find the next case's messages
            REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        else
            REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    }
    for (gpurun_request& request : requests)
        REQUIRE_OK(gpurun_request_free(&request));
}

TEST_CASE("persistent and other messages match each other") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    Memory buffer(Kind::kDevice, kLarge);
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
        for (int round = 0; round < 40; round++) {
            const bool persistent = (round + rank()) % 2 == 0;
            const bool sends = rank() % 2 == round / 2 % 2;
            const size_t bytes = round % 5 == 0 ? kLarge : 500;
            const Bytes content = pattern(bytes, static_cast<uint64_t>(round));
            gpurun_request request{};
            if (sends)
                REQUIRE_OK(gpurun_memcpy(buffer.get(), content.data(), bytes, domain));
            if (persistent) {
                const auto prepare = round % 3 == 0 ? gpurun_ssend_init : gpurun_send_init;
                REQUIRE_OK(sends ? prepare(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain, &request)
                                 : gpurun_recv_init(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain,
                                                    &request));
                REQUIRE_OK(gpurun_start(&request));
                REQUIRE_OK(gpurun_wait(&request, domain, nullptr));
                REQUIRE_OK(gpurun_request_free(&request));
            } else if (sends) {
                REQUIRE_OK(gpurun_send(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain));
            } else {
                REQUIRE_OK(gpurun_recv(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain, nullptr));
            }
            synchronize(domain);
            Bytes got(bytes);
            REQUIRE_OK(gpurun_memcpy(got.data(), buffer.get(), bytes, GPURUN_HOST));
            CHECK(first_difference(got, content) == -1);
        }
}

TEST_CASE("a persistent synchronous send is complete once its message is matched, each time") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    uint32_t number = 5;
    gpurun_request request{};
    if (rank() % 2 == 0)
        REQUIRE_OK(gpurun_ssend_init(&number, 1, GPURUN_UINT32, partner(), kData, kWorld, GPURUN_HOST, &request));
    for (uint32_t round = 0; round < 50; round++) {
        if (rank() % 2 == 1) {
            REQUIRE_OK(gpurun_probe(partner(), kData, kWorld, nullptr));
            REQUIRE_OK(gpurun_ssend(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
            REQUIRE_OK(gpurun_recv(&number, 1, GPURUN_UINT32, partner(), kData, kWorld, GPURUN_HOST, nullptr));
            CHECK(number == round);
            continue;
        }
        int done = 7;
        number = round;
        REQUIRE_OK(gpurun_start(&request));
        // The partner's synchronous send waits here: until it is received, the number is not.
        REQUIRE_OK(gpurun_probe(partner(), kGo, kWorld, nullptr));
        REQUIRE_OK(gpurun_test(&request, GPURUN_HOST, &done, nullptr));
        CHECK(done == 0);
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    }
    if (rank() % 2 == 0)
        REQUIRE_OK(gpurun_request_free(&request));
}

TEST_CASE("an inactive request is complete, and stays what it is") {
    uint32_t number = 3;
    gpurun_request request{};
    gpurun_message_status status{1, 1, 1, 1, GPURUN_ERR_INTERNAL, 1};
    int done = 0, index = 0, count = 0, indices[1];
    REQUIRE_OK(gpurun_recv_init(&number, 1, GPURUN_UINT32, rank(), kData, kWorld, GPURUN_HOST, &request));
    const uint64_t id = request.id;
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, &status));
    CHECK(status.error == GPURUN_OK);
    CHECK(status.cancelled == 0);
    CHECK(status.bytes == 0);
    REQUIRE_OK(gpurun_test(&request, GPURUN_HOST, &done, nullptr));
    CHECK(done == 1);
    REQUIRE_OK(gpurun_waitany(1, &request, GPURUN_HOST, &index, nullptr));
    CHECK(index == GPURUN_UNDEFINED);
    REQUIRE_OK(gpurun_waitsome(1, &request, GPURUN_HOST, &count, indices, nullptr));
    CHECK(count == GPURUN_UNDEFINED);
    CHECK(request.id == id);
    REQUIRE_OK(gpurun_request_free(&request));
    CHECK(request.id == 0);
}

TEST_CASE("a persistent request of GPURUN_PROC_NULL is complete as soon as it is started") {
    const Stream stream;
    uint32_t number = 3;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        gpurun_request requests[2]{};
        REQUIRE_OK(gpurun_send_init(&number, 1, GPURUN_UINT32, GPURUN_PROC_NULL, 1, kWorld, domain, &requests[0]));
        REQUIRE_OK(gpurun_recv_init(&number, 1, GPURUN_UINT32, GPURUN_PROC_NULL, 1, kWorld, domain, &requests[1]));
        for (int round = 0; round < 5; round++) {
            gpurun_message_status statuses[2]{};
            int done = 0;
            REQUIRE_OK(gpurun_startall(2, requests));
            REQUIRE_OK(gpurun_testall(2, requests, domain, &done, statuses));
            CHECK(done == 1);
            CHECK(statuses[1].source == GPURUN_PROC_NULL);
            CHECK(statuses[1].tag == GPURUN_ANY_TAG);
            CHECK(statuses[1].bytes == 0);
            CHECK(number == 3);
        }
        for (gpurun_request& request : requests)
            REQUIRE_OK(gpurun_request_free(&request));
    }
}

TEST_CASE("a persistent receive that is taken back can be started again") {
    uint32_t number = 3, sent = 77;
    gpurun_request request{};
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_recv_init(&number, 1, GPURUN_UINT32, GPURUN_ANY_SOURCE, kGo + 1, kWorld, GPURUN_HOST, &request));
    for (uint32_t round = 0; round < 20; round++) {
        REQUIRE_OK(gpurun_start(&request));
        REQUIRE_OK(gpurun_cancel(&request));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, &status));
        CHECK(status.cancelled == 1);
        REQUIRE_OK(gpurun_start(&request));
        sent = round;
        REQUIRE_OK(gpurun_send(&sent, 1, GPURUN_UINT32, rank(), kGo + 1, kWorld, GPURUN_HOST));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, &status));
        CHECK(status.cancelled == 0);
        CHECK(number == round);
    }
    REQUIRE_OK(gpurun_request_free(&request));
}

TEST_CASE("a persistent send that is given up while it is active arrives all the same") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    Memory buffer(Kind::kDevice, kLarge);
    const Bytes content = pattern(kLarge, 30);
    if (rank() % 2 == 1) {
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        REQUIRE_OK(gpurun_recv(buffer.get(), kLarge, GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST, nullptr));
        CHECK(first_difference(buffer.read(), content) == -1);
        REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
        return;
    }
    gpurun_request request{};
    buffer.write(content);
    REQUIRE_OK(gpurun_send_init(buffer.get(), kLarge, GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST, &request));
    REQUIRE_OK(gpurun_start(&request));
    REQUIRE_OK(gpurun_request_free(&request));
    CHECK(request.id == 0);
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
}

TEST_SUITE_END();

} // namespace gpurun::test::persistent
