// Taking receives back, and giving requests up.
#include "support/job.hpp"

namespace gpurun::test::cancelling {

namespace {

constexpr int kData = 1, kGo = 2;
constexpr size_t kLarge = 700000;

void tell(int to) { REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, to, kGo, kWorld, GPURUN_HOST)); }
void await(int from) { REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, from, kGo, kWorld, GPURUN_HOST, nullptr)); }

// From a pageable buffer, in the host's order domain.
void send(const Bytes& content) {
    REQUIRE_OK(gpurun_send(content.data(), content.size(), GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST));
}

void receive(const Memory& buffer, const Bytes& expected, gpurun_stream domain) {
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_recv(buffer.get(), buffer.size(), GPURUN_BYTE, partner(), kData, kWorld, domain, &status));
    synchronize(domain);
    CHECK(status.bytes == expected.size());
    CHECK(first_difference(buffer.read().data(), expected.data(), expected.size()) == -1);
}

void check_cancelled(const gpurun_message_status& status) {
    CHECK(status.cancelled == 1);
    CHECK(status.error == GPURUN_OK);
    CHECK(status.bytes == 0);
}

} // namespace

TEST_SUITE_BEGIN("cancelling");

TEST_CASE("a receive that is taken back takes no message and leaves its buffer as it is") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const int source : {partner(), GPURUN_ANY_SOURCE})
        for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
            for (const size_t bytes : {size_t{16}, kLarge}) {
                const Bytes content = pattern(bytes, 6);
                if (rank() % 2 == 0) {
                    await(partner());
                    send(content);
                    continue;
                }
                Memory untouched(Kind::kDevice, bytes), buffer(Kind::kDevice, bytes);
                untouched.write(Bytes(bytes, 0x21));
                gpurun_request request{};
                gpurun_message_status status{};
                REQUIRE_OK(gpurun_irecv(untouched.get(), bytes, GPURUN_BYTE, source, kData, kWorld, domain, &request));
                REQUIRE_OK(gpurun_cancel(&request));
                CHECK(request.id != 0);
                REQUIRE_OK(gpurun_wait(&request, domain, &status)); // nothing has been sent
                CHECK(request.id == 0);
                check_cancelled(status);
                tell(partner());
                receive(buffer, content, domain);
                CHECK(first_difference(untouched.read(), Bytes(bytes, 0x21)) == -1);
            }
}

TEST_CASE("a receive that is matched goes on when it is taken back") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
        for (const size_t bytes : {size_t{16}, kLarge}) {
            const Bytes content = pattern(bytes, 7);
            if (rank() % 2 == 0) {
                send(content);
                continue;
            }
            Memory buffer(Kind::kDevice, bytes);
            gpurun_request request{};
            gpurun_message_status status{};
            REQUIRE_OK(gpurun_probe(partner(), kData, kWorld, nullptr)); // there: the receive is matched by starting
            REQUIRE_OK(gpurun_irecv(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain, &request));
            REQUIRE_OK(gpurun_cancel(&request));
            REQUIRE_OK(gpurun_wait(&request, domain, &status));
            synchronize(domain);
            CHECK(status.cancelled == 0);
            CHECK(status.error == GPURUN_OK);
            CHECK(status.bytes == bytes);
            CHECK(first_difference(buffer.read(), content) == -1);
        }
}

TEST_CASE("a receive is taken back or matched, never both and never neither, while messages come") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr uint32_t kMessages = 500;
    uint32_t number = 0;
    if (rank() % 2 == 0) {
        for (uint32_t i = 0; i < kMessages; i++)
            REQUIRE_OK(gpurun_send(&i, 1, GPURUN_UINT32, partner(), kData, kWorld, GPURUN_HOST));
        return;
    }
    for (uint32_t received = 0; received < kMessages;) {
        gpurun_request request{};
        gpurun_message_status status{};
        number = ~0u;
        REQUIRE_OK(gpurun_irecv(&number, 1, GPURUN_UINT32, partner(), kData, kWorld, GPURUN_HOST, &request));
        REQUIRE_OK(gpurun_cancel(&request));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, &status));
        REQUIRE(number == (status.cancelled == 1 ? ~0u : received));
        received += status.cancelled == 1 ? 0 : 1;
    }
}

TEST_CASE("one receive of many is taken back, and the others keep their order") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kReceives = 9, kTaken = 4;
    if (rank() % 2 == 0) {
        await(partner());
        for (uint32_t i = 0; i < kReceives - 1; i++)
            REQUIRE_OK(gpurun_send(&i, 1, GPURUN_UINT32, partner(), kData, kWorld, GPURUN_HOST));
        return;
    }
    uint32_t numbers[kReceives];
    gpurun_request requests[kReceives];
    gpurun_message_status statuses[kReceives];
    for (size_t i = 0; i < kReceives; i++) {
        numbers[i] = ~0u;
        REQUIRE_OK(gpurun_irecv(&numbers[i], 1, GPURUN_UINT32, i % 2 == 0 ? GPURUN_ANY_SOURCE : partner(), kData,
                                kWorld, GPURUN_HOST, &requests[i]));
    }
    REQUIRE_OK(gpurun_cancel(&requests[kTaken]));
    tell(partner());
    REQUIRE_OK(gpurun_waitall(kReceives, requests, GPURUN_HOST, statuses));
    for (size_t i = 0; i < kReceives; i++) {
        CHECK(statuses[i].cancelled == (i == kTaken ? 1 : 0));
        CHECK(numbers[i] == (i == kTaken ? ~0u : static_cast<uint32_t>(i < kTaken ? i : i - 1)));
    }
}

TEST_CASE("a send that is given up arrives all the same") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
        for (const size_t bytes : {size_t{16}, size_t{5000}, kLarge}) {
            const Bytes content = pattern(bytes, 8);
            Memory buffer(Kind::kDevice, bytes);
            if (rank() % 2 == 1) {
                await(partner()); // given up, and not matched
                receive(buffer, content, domain);
                tell(partner());
                continue;
            }
            buffer.write(content);
            gpurun_request request{};
            REQUIRE_OK(gpurun_isend(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain, &request));
            REQUIRE_OK(gpurun_request_free(&request));
            CHECK(request.id == 0);
            tell(partner());
            await(partner()); // the buffer is in use until the receiver has it
        }
}

TEST_CASE("a receive that is given up takes its message, and the next receive the next") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    static std::vector<Bytes> given_up; // in use until gpurun_finalize(): nothing else says when the message has moved
    for (const size_t bytes : {size_t{16}, kLarge}) {
        const Bytes first = pattern(bytes, 9), second = pattern(bytes, 10);
        if (rank() % 2 == 0) {
            await(partner());
            send(first);
            send(second);
            continue;
        }
        const Memory buffer(Kind::kPageable, bytes);
        gpurun_request request{};
        given_up.emplace_back(bytes);
        REQUIRE_OK(
            gpurun_irecv(given_up.back().data(), bytes, GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST, &request));
        REQUIRE_OK(gpurun_request_free(&request));
        CHECK(request.id == 0);
        tell(partner());
        receive(buffer, second, GPURUN_HOST);
    }
}

TEST_CASE("thousands of requests are given up and their places used again") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr uint64_t kMessages = 5000;
    Memory numbers(Kind::kPageable, kMessages * sizeof(uint64_t));
    auto* const number = reinterpret_cast<uint64_t*>(numbers.get());
    for (uint64_t i = 0; i < kMessages; i++) {
        if (rank() % 2 == 0) {
            gpurun_request request{};
            number[i] = i * 3;
            REQUIRE_OK(gpurun_isend(&number[i], 1, GPURUN_UINT64, partner(), kData, kWorld, GPURUN_HOST, &request));
            REQUIRE_OK(gpurun_request_free(&request));
        } else {
            REQUIRE_OK(gpurun_recv(&number[i], 1, GPURUN_UINT64, partner(), kData, kWorld, GPURUN_HOST, nullptr));
            REQUIRE(number[i] == i * 3);
        }
    }
    if (rank() % 2 == 0)
        await(partner());
    else
        tell(partner());
}

TEST_SUITE_END();

} // namespace gpurun::test::cancelling
