// Synchronous sends: complete only once their message is matched.
//
// The receiver probes: it has the message, and says so before it receives. No time is measured.
#include "support/job.hpp"

#include <atomic>
#include <thread>

namespace gpurun::test::synchronous {

namespace {

constexpr size_t kLarge = 500000;
constexpr int kData = 1, kSeen = 50, kGo = 51;

void tell(int to, int tag) { REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, to, tag, kWorld, GPURUN_HOST)); }
void await(int from, int tag) {
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, from, tag, kWorld, GPURUN_HOST, nullptr));
}

// The receiver has the message, and has not matched it: a synchronous send is not complete.
void check_waits_for_match(Kind kind, size_t bytes, gpurun_stream start, gpurun_stream end) {
    Memory buffer(kind, bytes);
    if (rank() % 2 == 1) {
        REQUIRE_OK(gpurun_probe(partner(), kData, kWorld, nullptr));
        tell(partner(), kSeen);
        await(partner(), kGo);
        REQUIRE_OK(gpurun_recv(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, end, nullptr));
        synchronize(end);
        CHECK(first_difference(buffer.read(), pattern(bytes, 3)) == -1);
        return;
    }
    buffer.write(pattern(bytes, 3));
    gpurun_request request{};
    int done = 7;
    REQUIRE_OK(gpurun_issend(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, start, &request));
    await(partner(), kSeen);
    REQUIRE_OK(gpurun_test(&request, end, &done, nullptr));
    CHECK(done == 0);
    CHECK(request.id != 0);
    tell(partner(), kGo);
    REQUIRE_OK(gpurun_wait(&request, end, nullptr));
    CHECK(request.id == 0);
    synchronize(end);
}

} // namespace

TEST_SUITE_BEGIN("synchronous sends");

TEST_CASE("a synchronous send that is started is not complete before its message is matched") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream, other;
    for (const size_t bytes : {size_t{0}, size_t{100}, kLarge})
        for (const Kind kind : {Kind::kDevice, Kind::kPageable})
            for (const gpurun_stream start : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
                for (const gpurun_stream end : {GPURUN_HOST, static_cast<gpurun_stream>(other)}) {
                    CAPTURE(bytes);
                    CAPTURE(name(kind));
                    check_waits_for_match(kind, bytes, start, end);
                }
}

TEST_CASE("gpurun_ssend does not return before its message is matched") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)})
        for (const size_t bytes : {size_t{8}, kLarge}) {
            Memory buffer(Kind::kDevice, bytes);
            if (rank() % 2 == 1) {
                REQUIRE_OK(gpurun_probe(partner(), kData, kWorld, nullptr));
                tell(partner(), kSeen);
                await(partner(), kGo);
                REQUIRE_OK(gpurun_recv(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain, nullptr));
                synchronize(domain);
                CHECK(first_difference(buffer.read(), pattern(bytes, 8)) == -1);
                continue;
            }
            buffer.write(pattern(bytes, 8));
            std::atomic<bool> returned = false;
            std::thread sender([&] {
                REQUIRE_OK(gpurun_ssend(buffer.get(), bytes, GPURUN_BYTE, partner(), kData, kWorld, domain));
                returned = true;
            });
            await(partner(), kSeen);
            CHECK_FALSE(returned);
            tell(partner(), kGo);
            sender.join();
            synchronize(domain);
        }
}

TEST_SUITE_END();

} // namespace gpurun::test::synchronous
