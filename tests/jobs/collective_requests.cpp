// Collectives as requests: started in one order domain, completed into another, several under way at once.
#include "signals.hpp"
#include "support/job.hpp"

#include <algorithm>
#include <memory>

using namespace gpurun::test;

namespace {

// The last rank that came must not be later than the first that left, as rank 0 sees it.
void check_times(double came, double left) {
    double times[2] = {came, left};
    if (rank() != 0) {
        REQUIRE_OK(gpurun_send(times, 2, GPURUN_DOUBLE, 0, 1, kWorld, GPURUN_HOST));
        return;
    }
    for (int source = 1; source < size(); source++) {
        REQUIRE_OK(gpurun_recv(times, 2, GPURUN_DOUBLE, source, 1, kWorld, GPURUN_HOST, nullptr));
        came = std::max(came, times[0]);
        left = std::min(left, times[1]);
    }
    CHECK(came <= left);
}

void check_barrier(gpurun_stream from, gpurun_stream into, int delay_us) {
    double came = 0, left = 0;
    delay(from, delay_us);
    note_time(from, came);
    gpurun_request request = GPURUN_REQUEST_NULL;
    REQUIRE_OK(gpurun_ibarrier(kWorld, from, &request));
    REQUIRE_OK(gpurun_wait(&request, into, nullptr));
    CHECK(request.id == GPURUN_REQUEST_NULL.id);
    note_time(into, left);
    synchronize(from);
    synchronize(into);
    check_times(came, left);
}

// A broadcast under way, with what it is to bring.
struct Broadcast {
    Memory buffer;
    Bytes content;
    gpurun_request request = GPURUN_REQUEST_NULL;

    Broadcast(Kind kind, size_t bytes, uint64_t seed) : buffer(kind, bytes + 1), content(pattern(bytes, seed)) {}
    void start(int root, gpurun_stream from) {
        REQUIRE_OK(gpurun_memset(buffer.get(), 0x33, content.size() + 1, from));
        if (rank() == root)
            REQUIRE_OK(gpurun_memcpy(buffer.get(), content.data(), content.size(), from));
        REQUIRE_OK(gpurun_ibcast(buffer.get(), content.size(), GPURUN_BYTE, root, kWorld, from, &request));
    }
    // REQUIRES that the request has been completed into `domain`.
    void check(gpurun_stream domain) const {
        Bytes got(content.size() + 1);
        REQUIRE_OK(gpurun_memcpy(got.data(), buffer.get(), got.size(), domain));
        synchronize(domain);
        CHECK(got.back() == 0x33);
        CHECK(first_difference(got.data(), content.data(), content.size()) == -1);
    }
};

constexpr size_t kSizes[] = {1, 4097, 300000, (3u << 20) + 1};
constexpr int kRounds = 6;

// Some steps wait for the device, of which no peer tells; others for messages that are small enough to wait in the
// ring.
void check_goes_on(int idle) {
    constexpr size_t kLarge = 100'000, kMiddle = 5361;
    constexpr int kDone = 3;
    const int caller = (idle + 1) % size();
    const int32_t expected = size() * (size() + 1) / 2;
    const std::vector<int32_t> own(kLarge, rank() + 1);
    std::vector<int32_t> middle(kMiddle), large(kLarge);
    const size_t bytes = kLarge * sizeof(int32_t);
    Memory from(Kind::kDevice, bytes), sum(Kind::kDevice, bytes), at_root(Kind::kDevice, bytes);
    REQUIRE_OK(gpurun_memcpy(from.get(), own.data(), bytes, GPURUN_HOST));
    pid_t pid = getpid();
    if (rank() == idle)
        await_signal();
    REQUIRE_OK(gpurun_bcast(&pid, 1, GPURUN_INT32, idle, kWorld, GPURUN_HOST));
    const gpurun_stream host = GPURUN_HOST;
    gpurun_request requests[4] = {GPURUN_REQUEST_NULL, GPURUN_REQUEST_NULL, GPURUN_REQUEST_NULL, GPURUN_REQUEST_NULL};
    REQUIRE_OK(gpurun_iallreduce(from.get(), sum.get(), kLarge, GPURUN_INT32, GPURUN_SUM, kWorld, host, &requests[0]));
    REQUIRE_OK(gpurun_ireduce(from.get(), at_root.get(), kLarge, GPURUN_INT32, GPURUN_SUM, caller, kWorld, host,
                              &requests[1]));
    if (rank() == idle) {
        REQUIRE_OK(gpurun_iallreduce(own.data(), middle.data(), kMiddle, GPURUN_INT32, GPURUN_SUM, kWorld, host,
                                     &requests[2]));
        REQUIRE_OK(gpurun_ibarrier(kWorld, host, &requests[3]));
        sleep_until_signal();
    } else {
        REQUIRE_OK(gpurun_allreduce(own.data(), middle.data(), kMiddle, GPURUN_INT32, GPURUN_SUM, kWorld, host));
        REQUIRE_OK(gpurun_barrier(kWorld, host));
    }
    REQUIRE_OK(gpurun_waitall(4, requests, host, nullptr));
    if (rank() == caller) {
        for (int left = size() - 2; left > 0; left--)
            REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, GPURUN_ANY_SOURCE, kDone, kWorld, host, nullptr));
        REQUIRE(kill(pid, SIGUSR1) == 0); // no message: its receiver makes no call
    } else if (rank() != idle) {
        REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, caller, kDone, kWorld, host));
    }
    CHECK(std::count(middle.begin(), middle.end(), expected) == kMiddle);
    for (const Memory* each : {&sum, &at_root}) {
        REQUIRE_OK(gpurun_memcpy(large.data(), each->get(), bytes, host));
        if (each == &sum || rank() == caller)
            CHECK(std::count(large.begin(), large.end(), expected) == kLarge);
    }
}

} // namespace

TEST_SUITE_BEGIN("collective requests");

TEST_CASE("who completes a barrier comes after all ranks, whatever the order domains") {
    const Stream one, other;
    const gpurun_stream domains[] = {GPURUN_HOST, one, other};
    int round = 0;
    for (const gpurun_stream from : domains)
        for (const gpurun_stream into : domains)
            for (int i = 0; i < kRounds; i++, round++)
                check_barrier(from, into, (rank() + round) % size() * 2000);
}

TEST_CASE("a barrier that was started holds nobody up who does not wait for it") {
    const Stream stream;
    gpurun_request request = GPURUN_REQUEST_NULL;
    if (rank() != 0)
        REQUIRE_OK(gpurun_ibarrier(kWorld, stream, &request));
    // Rank 0 starts it once all others have said that their streams went on.
    uint32_t word = 7;
    if (rank() != 0) {
        REQUIRE_OK(gpurun_stream_synchronize(stream));
        int done = -1;
        REQUIRE_OK(gpurun_test(&request, GPURUN_HOST, &done, nullptr));
        CHECK(done == 0);
        REQUIRE_OK(gpurun_send(&word, 1, GPURUN_UINT32, 0, 3, kWorld, stream));
    }
    for (int source = 1; rank() == 0 && source < size(); source++)
        REQUIRE_OK(gpurun_recv(&word, 1, GPURUN_UINT32, source, 3, kWorld, GPURUN_HOST, nullptr));
    if (rank() == 0)
        REQUIRE_OK(gpurun_ibarrier(kWorld, stream, &request));
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
}

TEST_CASE("a broadcast is complete in the order domain that it is completed into") {
    const Stream one, other;
    const gpurun_stream domains[] = {GPURUN_HOST, one, other};
    uint64_t seed = 500;
    int root = 0;
    for (const size_t bytes : kSizes)
        for (const Kind kind : kKinds)
            for (const gpurun_stream from : {GPURUN_HOST, static_cast<gpurun_stream>(one)})
                for (const gpurun_stream into : domains) {
                    CAPTURE(bytes);
                    CAPTURE(name(kind));
                    CAPTURE((from == GPURUN_HOST));
                    CAPTURE((into == GPURUN_HOST));
                    Broadcast broadcast(kind, bytes, ++seed);
                    broadcast.start(root++ % size(), from);
                    gpurun_message_status status{};
                    REQUIRE_OK(gpurun_wait(&broadcast.request, into, &status));
                    CHECK(status.source == GPURUN_ANY_SOURCE);
                    broadcast.check(into);
                    synchronize(from);
                }
}

TEST_CASE("collectives that are under way together do not take each other's messages") {
    const Stream stream, second;
    for (int round = 0; round < kRounds; round++) {
        std::vector<std::unique_ptr<Broadcast>> all;
        std::vector<gpurun_request> requests;
        for (int i = 0; i < 12; i++) {
            const gpurun_stream from = i % 3 == 0   ? GPURUN_HOST
                                       : i % 3 == 1 ? static_cast<gpurun_stream>(stream)
                                                    : static_cast<gpurun_stream>(second);
            const size_t bytes = kSizes[static_cast<size_t>(i) % 3];
            all.push_back(std::make_unique<Broadcast>(i % 2 == 0 ? Kind::kDevice : Kind::kPageable, bytes,
                                                      static_cast<uint64_t>(1000 + round * 20 + i)));
            all.back()->start((i * 5 + round) % size(), from);
            requests.push_back(all.back()->request);
            if (i % 4 == 0) {
                requests.emplace_back();
                REQUIRE_OK(gpurun_ibarrier(kWorld, from, &requests.back()));
            }
        }
        if (round % 2 == 0) {
            REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), GPURUN_HOST, nullptr));
        } else {
            std::reverse(requests.begin(), requests.end()); // the last first
            for (gpurun_request& each : requests)
                REQUIRE_OK(gpurun_wait(&each, stream, nullptr));
        }
        for (const auto& each : all)
            each->check(round % 2 == 0 ? GPURUN_HOST : static_cast<gpurun_stream>(stream));
        second.synchronize();
    }
}

TEST_CASE("collectives and messages that are under way together are completed together") {
    const Stream stream;
    const int right = (rank() + 1) % size(), left = (rank() + size() - 1) % size();
    const uint32_t mine = static_cast<uint32_t>(rank());
    uint32_t got = ~0u;
    Broadcast broadcast(Kind::kDevice, 50000, 77);
    gpurun_request requests[4];
    REQUIRE_OK(gpurun_irecv(&got, 1, GPURUN_UINT32, left, 9, kWorld, GPURUN_HOST, &requests[0]));
    broadcast.start(size() - 1, stream);
    requests[1] = broadcast.request;
    REQUIRE_OK(gpurun_isend(&mine, 1, GPURUN_UINT32, right, 9, kWorld, GPURUN_HOST, &requests[2]));
    REQUIRE_OK(gpurun_ibarrier(kWorld, GPURUN_HOST, &requests[3]));
    int completed = 0;
    while (completed < 4) {
        int count = 0, indices[4];
        REQUIRE_OK(gpurun_waitsome(4, requests, GPURUN_HOST, &count, indices, nullptr));
        REQUIRE(count > 0);
        completed += count;
    }
    CHECK(got == static_cast<uint32_t>(left));
    broadcast.check(GPURUN_HOST);
}

// Those that are completed as soon as they are started, again and again, run in the program's stream; also by ranks
// some of which have others under way, or do something in between.
TEST_CASE("requests that are completed directly behind their start meet those that are not") {
    const Stream stream;
    gpurun_comm other{};
    REQUIRE_OK(gpurun_comm_dup(kWorld, &other));
    constexpr size_t kCounts[] = {1, 1000, 100'000};
    for (const size_t count : kCounts) {
        const size_t bytes = count * sizeof(int32_t);
        Memory from(Kind::kDevice, bytes), one(Kind::kDevice, bytes), two(Kind::kDevice, bytes);
        const std::vector<int32_t> own(count, rank() + 1);
        std::vector<int32_t> got(count);
        REQUIRE_OK(gpurun_memcpy(from.get(), own.data(), bytes, stream));
        const auto start = [&](Memory& into, gpurun_comm comm, gpurun_request& request) {
            REQUIRE_OK(
                gpurun_iallreduce(from.get(), into.get(), count, GPURUN_INT32, GPURUN_SUM, comm, stream, &request));
        };
        for (int round = 0; round < 40; round++) {
            gpurun_request requests[2] = {GPURUN_REQUEST_NULL, GPURUN_REQUEST_NULL};
            REQUIRE_OK(gpurun_memset(one.get(), 0, bytes, stream));
            REQUIRE_OK(gpurun_memset(two.get(), 0, bytes, stream));
            const bool in_order = round % 8 != 7 || rank() % 2 == 0; // of different communicators in any
            const gpurun_comm second = round % 8 == 7 ? other : kWorld;
            start(in_order ? one : two, in_order ? kWorld : second, requests[0]);
            if (round % 5 == rank() % 5)
                REQUIRE_OK(gpurun_memset(from.get(), 0, 0, stream));
            start(in_order ? two : one, in_order ? second : kWorld, requests[1]);
            if (round % 7 == rank() % 7)
                REQUIRE_OK(gpurun_wait(&requests[1], stream, nullptr));
            if (round % 3 == rank() % 3)
                std::swap(requests[0], requests[1]);
            REQUIRE_OK(gpurun_waitall(2, requests, stream, nullptr));
            for (const Memory* each : {&one, &two}) {
                REQUIRE_OK(gpurun_memcpy(got.data(), each->get(), bytes, stream));
                stream.synchronize();
                CHECK(std::count(got.begin(), got.end(), size() * (size() + 1) / 2) ==
                      static_cast<std::ptrdiff_t>(count));
            }
        }
    }
    REQUIRE_OK(gpurun_comm_free(&other));
}

TEST_CASE("one that nobody waits for is completed all the same") {
    const Stream stream;
    for (const gpurun_stream from : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
        gpurun_request request = GPURUN_REQUEST_NULL;
        REQUIRE_OK(gpurun_ibarrier(kWorld, from, &request));
        REQUIRE_OK(gpurun_request_free(&request));
        CHECK(request.id == GPURUN_REQUEST_NULL.id);
    }
    REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
}

TEST_CASE("collectives go on while one of their ranks makes no call") {
    constexpr int kTurns = 12;
    for (int turn = 0; size() > 1 && goes_on_without_calls() && turn < kTurns; turn++)
        check_goes_on(turn % size());
}

TEST_CASE("what cannot be is refused, and nothing is started") {
    const Stream stream;
    gpurun_request request = GPURUN_REQUEST_NULL;
    uint32_t word = 0;
    CHECK(gpurun_ibcast(&word, 1, GPURUN_UINT32, size(), kWorld, GPURUN_HOST, &request) == GPURUN_ERR_RANK);
    CHECK(gpurun_ibcast(&word, 1, GPURUN_UINT32, 0, kWorld, GPURUN_HOST, nullptr) == GPURUN_ERR_ARGUMENT);
    CHECK(gpurun_ibarrier(gpurun_comm{99}, GPURUN_HOST, &request) == GPURUN_ERR_COMM);
    if (has_graphs()) {
        REQUIRE_OK(gpurun_capture_begin(stream));
        CHECK(gpurun_ibarrier(kWorld, stream, &request) == GPURUN_ERR_UNSUPPORTED);
        CHECK(request.id == GPURUN_REQUEST_NULL.id);
        gpurun_graph graph{};
        REQUIRE_OK(gpurun_capture_end(stream, &graph));
        REQUIRE_OK(gpurun_graph_destroy(graph));
    }
    REQUIRE_OK(gpurun_ibarrier(kWorld, stream, &request));
    CHECK(gpurun_cancel(&request) == GPURUN_ERR_UNSUPPORTED);
    REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
    stream.synchronize();
}

TEST_SUITE_END();
