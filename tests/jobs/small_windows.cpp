// Windows of small messages, in the host's order and in streams': what is started back to back is enqueued together.
#include "support/job.hpp"

#include <array>
#include <chrono>
#include <thread>

namespace gpurun::test::small_windows {

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

TEST_CASE("what small messages carry is what their stream had written before them, idle or not") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMany = 70, kEach = 16; // more than share one kernel
    const Stream stream, other;
    const Memory out(Kind::kDevice, kMany * kEach), in(Kind::kDevice, kMany * kEach);
    Memory staged(Kind::kPinned, kMany * kEach), got(Kind::kPinned, kMany * kEach);
    for (int round = 0; round < 24; ++round) {
        CAPTURE(round);
        const bool idle = round % 3 != 0;
        const gpurun_stream end_in = round % 2 == 0 ? stream : other;
        std::array<gpurun_request, 2 * kMany> requests;
        staged.write(pattern(kMany * kEach, seed_of(rank(), round, 0)));
        if (!idle)
            delay(stream, 3000);
        REQUIRE_OK(gpurun_memcpy(out.get(), staged.get(), kMany * kEach, stream));
        REQUIRE_OK(gpurun_memset(in.get(), 0xee, kMany * kEach, stream));
        if (idle)
            stream.synchronize();
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(
                gpurun_irecv(in.at(i * kEach), kEach, GPURUN_BYTE, partner(), kData, kWorld, stream, &requests[i]));
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(gpurun_isend(out.at(i * kEach), kEach, GPURUN_BYTE, partner(), kData, kWorld, stream,
                                    &requests[kMany + i]));
        REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), end_in, nullptr));
        REQUIRE_OK(gpurun_memset(out.get(), 0xdd, kMany * kEach, end_in)); // would be sent if it did not wait
        REQUIRE_OK(gpurun_memcpy(got.get(), in.get(), kMany * kEach, end_in));
        synchronize(end_in);
        stream.synchronize();
        CHECK(first_difference(got.read(), pattern(kMany * kEach, seed_of(partner(), round, 0))) == -1);
    }
}

TEST_CASE("small messages of several streams and of the host arrive in the order in which they were started") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMany = 100;
    const Stream first, second, third;
    const gpurun_stream domains[] = {first, second, GPURUN_HOST, first, third, third};
    Memory out(Kind::kDevice, kMany * 8), in(Kind::kDevice, kMany * 8);
    const auto domain = [&](size_t i) { return domains[i % std::size(domains)]; };
    for (int round = 0; round < 6; ++round) {
        CAPTURE(round);
        std::array<gpurun_request, kMany> sends, receives;
        out.write(pattern(kMany * 8, seed_of(rank(), round, 0)));
        if (round % 2 == 1)
            delay(second, 3000);
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(gpurun_isend(out.at(i * 8), 8, GPURUN_BYTE, partner(), kData, kWorld, domain(i), &sends[i]));
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(
                gpurun_irecv(in.at(i * 8), 8, GPURUN_BYTE, partner(), kData, kWorld, domain(i + 1), &receives[i]));
        for (size_t i = 0; i < kMany; i++) { // each in a domain that is not its own
            REQUIRE_OK(gpurun_wait(&receives[i], domain(i + 2), nullptr));
            REQUIRE_OK(gpurun_wait(&sends[i], domain(i), nullptr));
        }
        for (const gpurun_stream each : domains)
            synchronize(each);
        CHECK(first_difference(in.read(), pattern(kMany * 8, seed_of(partner(), round, 0))) == -1);
    }
}

TEST_CASE("what follows small sends in the stream that they are completed into does not change them") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMany = 30, kEach = 4096; // launched by the call that completes them
    const Stream stream, other;
    const Memory buffer(Kind::kDevice, kMany * kEach);
    Memory staged(Kind::kPinned, kMany * kEach);
    for (int round = 0; round < 16; ++round) {
        CAPTURE(round);
        std::array<gpurun_request, kMany> requests;
        const gpurun_stream start_in = round % 4 == 3 ? GPURUN_HOST : static_cast<gpurun_stream>(stream);
        const gpurun_stream end_in = round % 2 == 0 ? stream : other;
        if (rank() < partner()) {
            staged.write(pattern(kMany * kEach, seed_of(rank(), round, 0)));
            REQUIRE_OK(gpurun_memcpy(buffer.get(), staged.get(), kMany * kEach, stream));
            stream.synchronize();
            for (size_t i = 0; i < kMany; i++)
                REQUIRE_OK(gpurun_isend(buffer.at(i * kEach), kEach, GPURUN_BYTE, partner(), kData, kWorld, start_in,
                                        &requests[i]));
            REQUIRE_OK(gpurun_waitall(kMany, requests.data(), end_in, nullptr));
            REQUIRE_OK(gpurun_memset(buffer.get(), 0xdd, kMany * kEach, end_in));
            synchronize(end_in);
            continue;
        }
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(
                gpurun_recv(buffer.at(i * kEach), kEach, GPURUN_BYTE, partner(), kData, kWorld, stream, nullptr));
        REQUIRE_OK(gpurun_memcpy(staged.get(), buffer.get(), kMany * kEach, stream));
        stream.synchronize();
        CHECK(first_difference(staged.read(), pattern(kMany * kEach, seed_of(partner(), round, 0))) == -1);
    }
}

TEST_CASE(
    "a window of more small messages than a rank remembers launches of arrives, completed bit by bit or at once") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMany = 400, kEach = 8;
    const Stream stream, other;
    Memory out(Kind::kDevice, kMany * kEach), in(Kind::kDevice, kMany * kEach);
    for (const size_t at_once : {kMany, size_t{7}, size_t{64}}) {
        CAPTURE(at_once);
        std::vector<gpurun_request> sends(kMany), receives(kMany);
        out.write(pattern(kMany * kEach, seed_of(rank(), static_cast<int>(at_once), 1)));
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(
                gpurun_irecv(in.at(i * kEach), kEach, GPURUN_BYTE, partner(), kData, kWorld, stream, &receives[i]));
        for (size_t i = 0; i < kMany; i++)
            REQUIRE_OK(
                gpurun_isend(out.at(i * kEach), kEach, GPURUN_BYTE, partner(), kData, kWorld, stream, &sends[i]));
        for (size_t i = 0; i < kMany; i += at_once) {
            const size_t count = std::min(at_once, kMany - i);
            const gpurun_stream end_in = i / at_once % 2 == 0 ? stream : other;
            REQUIRE_OK(gpurun_waitall(count, &receives[i], end_in, nullptr));
            REQUIRE_OK(gpurun_waitall(count, &sends[i], end_in, nullptr));
        }
        other.synchronize();
        stream.synchronize();
        CHECK(first_difference(in.read(), pattern(kMany * kEach, seed_of(partner(), static_cast<int>(at_once), 1))) ==
              -1);
    }
}

} // namespace gpurun::test::small_windows
