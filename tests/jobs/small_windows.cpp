// Windows of small messages in the host's order: what is started back to back is enqueued together.
#include "support/job.hpp"

#include <array>
#include <chrono>
#include <thread>

using namespace gpurun::test;

namespace {

constexpr int kData = 1, kGo = 2;
constexpr size_t kWindow = 150; // more than a pair's places for small messages
constexpr size_t kSizes[] = {1, 8, 100, 4095, 4096, 4097, 0};

size_t bytes_of(size_t i) { return kSizes[i % std::size(kSizes)]; }
constexpr size_t kSlot = 4104;
uint64_t seed_of(int from, int round, size_t i) {
    return static_cast<uint64_t>(from) * 1'000'000 + static_cast<uint64_t>(round) * 1000 + i;
}

using Requests = std::array<gpurun_request, kWindow>;

void fill(Memory& memory, int round) {
    Bytes all(kWindow * kSlot);
    for (size_t i = 0; i < kWindow; i++) {
        const Bytes one = pattern(bytes_of(i), seed_of(rank(), round, i));
        std::copy(one.begin(), one.end(), all.begin() + static_cast<ptrdiff_t>(i * kSlot));
    }
    memory.write(all);
}

void check(const Memory& memory, int round) {
    const Bytes got = memory.read();
    for (size_t i = 0; i < kWindow; i++) {
        const Bytes one = pattern(bytes_of(i), seed_of(partner(), round, i));
        CHECK(first_difference(&got[i * kSlot], one.data(), one.size()) == -1);
    }
}

void start_sends(const Memory& memory, gpurun_stream domain, Requests& requests) {
    for (size_t i = 0; i < kWindow; i++)
        REQUIRE_OK(gpurun_isend(memory.at(i * kSlot), bytes_of(i), GPURUN_BYTE, partner(), kData, kWorld, domain,
                                &requests[i]));
}

void start_receives(const Memory& memory, gpurun_stream domain, Requests& requests) {
    for (size_t i = 0; i < kWindow; i++)
        REQUIRE_OK(gpurun_irecv(memory.at(i * kSlot), bytes_of(i), GPURUN_BYTE, partner(), kData, kWorld, domain,
                                &requests[i]));
}

void end(Requests& requests, gpurun_stream domain) {
    REQUIRE_OK(gpurun_waitall(kWindow, requests.data(), domain, nullptr));
    synchronize(domain);
}

} // namespace

TEST_SUITE_BEGIN("mailbox");

TEST_CASE("windows of small messages arrive whole, whichever side is first, in any order domains") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    const gpurun_stream domains[] = {GPURUN_HOST, stream};
    for (const Kind kind : {Kind::kDevice, Kind::kPinned}) {
        Memory out(kind, kWindow * kSlot), in(kind, kWindow * kSlot);
        int round = 0;
        for (const gpurun_stream sends : domains)
            for (const gpurun_stream receives : domains)
                for (const bool late : {false, true}) {
                    CAPTURE((sends == GPURUN_HOST));
                    CAPTURE((receives == GPURUN_HOST));
                    CAPTURE(late);
                    Requests outgoing, incoming;
                    fill(out, round);
                    if (!late)
                        start_receives(in, receives, incoming);
                    start_sends(out, sends, outgoing);
                    if (late)
                        start_receives(in, receives, incoming);
                    end(outgoing, sends);
                    end(incoming, receives);
                    check(in, round++);
                }
    }
}

TEST_CASE("small messages that are started together are there while their sender makes no call") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    Memory buffer(Kind::kDevice, 3 * 64);
    gpurun_request requests[3];
    if (rank() < partner()) {
        buffer.write(pattern(3 * 64, 5));
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        for (size_t i = 0; i < 3; i++)
            REQUIRE_OK(
                gpurun_isend(buffer.at(i * 64), 64, GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST, &requests[i]));
        std::this_thread::sleep_for(std::chrono::seconds(2)); // it computes
        REQUIRE_OK(gpurun_waitall(3, requests, GPURUN_HOST, nullptr));
        return;
    }
    const double begin = gpurun_wtime();
    REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    for (size_t i = 0; i < 3; i++)
        REQUIRE_OK(gpurun_recv(buffer.at(i * 64), 64, GPURUN_BYTE, partner(), kData, kWorld, GPURUN_HOST, nullptr));
    CHECK(gpurun_wtime() - begin < 1.5);
    CHECK(first_difference(buffer.read(), pattern(3 * 64, 5)) == -1);
}
