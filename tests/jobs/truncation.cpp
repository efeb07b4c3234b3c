// Messages that are longer than the receive's buffer.
#include "support/job.hpp"

#include <algorithm>

namespace gpurun::test::truncation {

namespace {

struct Sizes {
    size_t sent, room;
};
// Each lands in another mechanism: host eager, device eager, and the two sides of the bounds of large messages.
constexpr Sizes kSizes[] = {{9, 8},         {100, 40},       {4096, 0},     {30000, 1000},
                            {65536, 40000}, {1u << 20, 100}, {5u << 20, 0}, {5u << 20, (4u << 20) + 1}};

void send_too_much(Kind kind, gpurun_stream domain, size_t bytes, const Bytes& content) {
    Memory buffer(kind, bytes);
    buffer.write(content);
    REQUIRE_OK(gpurun_send(buffer.get(), bytes, GPURUN_BYTE, partner(), 4, kWorld, domain));
    synchronize(domain);
}

void receive_part(Kind kind, gpurun_stream domain, const Sizes& sizes, const Bytes& content) {
    Memory buffer(kind, sizes.room + 64);
    Bytes expected(buffer.size(), 0x77);
    buffer.write(expected);
    std::copy_n(content.begin(), sizes.room, expected.begin());
    gpurun_message_status status{};
    const gpurun_status result =
        gpurun_recv(buffer.get(), sizes.room, GPURUN_BYTE, partner(), 4, kWorld, domain, &status);
    synchronize(domain);
    CHECK(result == GPURUN_ERR_TRUNCATED);
    CHECK(doctest::String(gpurun_error_detail()).size() > 0);
    CHECK(status.bytes == sizes.sent);
    CHECK(status.count == sizes.sent); // of GPURUN_BYTE
    CHECK(status.source == partner());
    CHECK(status.tag == 4);
    CHECK(first_difference(buffer.read(), expected) == -1);
}

} // namespace

TEST_SUITE_BEGIN("truncation");

TEST_CASE("a truncated receive delivers what fits, reports the true length, and loses nothing else") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    uint64_t seed = 0;
    for (const Sizes& sizes : kSizes)
        for (const Kind from : {Kind::kDevice, Kind::kOrdered, Kind::kPageable})
            for (const Kind to : {Kind::kDevice, Kind::kOrdered, Kind::kPageable})
                for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
                    CAPTURE(sizes.sent);
                    CAPTURE(sizes.room);
                    CAPTURE(name(from));
                    CAPTURE(name(to));
                    CAPTURE((domain == GPURUN_HOST));
                    const Bytes content = pattern(sizes.sent, ++seed);
                    uint32_t after = 123;
                    if (rank() % 2 == 0) {
                        send_too_much(from, domain, sizes.sent, content);
                        REQUIRE_OK(gpurun_send(&after, 1, GPURUN_UINT32, partner(), 4, kWorld, GPURUN_HOST));
                        continue;
                    }
                    receive_part(to, domain, sizes, content);
                    after = 0;
                    REQUIRE_OK(gpurun_recv(&after, 1, GPURUN_UINT32, partner(), 4, kWorld, GPURUN_HOST, nullptr));
                    CHECK(after == 123);
                }
}

TEST_CASE("a receive without room still comes after what the sender's stream did before") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    constexpr size_t kBytes[] = {0, 8, 4096, 100'000, 5u << 20};
    constexpr int kDelayUs = 3000;
    for (const size_t bytes : kBytes)
        for (const Kind kind : {Kind::kDevice, Kind::kOrdered, Kind::kPageable})
            for (const gpurun_stream order : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
                CAPTURE(bytes);
                CAPTURE(name(kind));
                CAPTURE((order == GPURUN_HOST));
                double sent = 0, got = 0;
                if (rank() % 2 == 0) {
                    const Memory buffer(kind, bytes);
                    delay(stream, kDelayUs);
                    note_time(stream, sent);
                    REQUIRE_OK(gpurun_send(buffer.get(), bytes, GPURUN_BYTE, partner(), 4, kWorld, stream));
                    stream.synchronize();
                    REQUIRE_OK(gpurun_send(&sent, 1, GPURUN_DOUBLE, partner(), 5, kWorld, GPURUN_HOST));
                    continue;
                }
                const gpurun_status result = gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), 4, kWorld, order, nullptr);
                CHECK(result == (bytes == 0 ? GPURUN_OK : GPURUN_ERR_TRUNCATED));
                note_time(order, got);
                synchronize(order);
                REQUIRE_OK(gpurun_recv(&sent, 1, GPURUN_DOUBLE, partner(), 5, kWorld, GPURUN_HOST, nullptr));
                CHECK(sent <= got);
            }
}

TEST_CASE("a truncated receive counts whole elements of its type") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    uint64_t numbers[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    if (rank() % 2 == 0) {
        REQUIRE_OK(gpurun_send(numbers, 79, GPURUN_BYTE, partner(), 4, kWorld, GPURUN_HOST));
        return;
    }
    uint64_t got[3] = {0, 0, 99};
    gpurun_message_status status{};
    CHECK(gpurun_recv(got, 2, GPURUN_UINT64, partner(), 4, kWorld, GPURUN_HOST, &status) == GPURUN_ERR_TRUNCATED);
    CHECK(status.bytes == 79);
    CHECK(status.count == 9);
    CHECK(got[0] == 1);
    CHECK(got[1] == 2);
    CHECK(got[2] == 99);
}

TEST_SUITE_END();

} // namespace gpurun::test::truncation
