// Barriers: no rank passes before all have reached it.
#include "support/job.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

namespace gpurun::test::barrier {

namespace {

// Rank 0 learns all ranks' times: the last that came must not be later than the first that left.
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

void check_barrier(gpurun_stream domain, int delay_us) {
    double came = 0, left = 0;
    delay(domain, delay_us);
    note_time(domain, came);
    REQUIRE_OK(gpurun_barrier(kWorld, domain));
    note_time(domain, left);
    synchronize(domain);
    check_times(came, left);
}

constexpr int kRounds = 10;

} // namespace

TEST_SUITE_BEGIN("barrier");

TEST_CASE("no thread leaves a barrier before every rank has come") {
    for (int round = 0; round < kRounds; round++)
        check_barrier(GPURUN_HOST, (rank() + round) % size() * 2000);
}

TEST_CASE("no stream passes a barrier before every rank's stream has reached it") {
    const Stream stream;
    for (int round = 0; round < kRounds; round++)
        check_barrier(stream, (rank() + round) % size() * 2000);
}

TEST_CASE("a barrier orders the streams of some ranks with the threads of others") {
    const Stream stream;
    for (int round = 0; round < kRounds; round++)
        check_barrier((rank() + round) % 2 == 0 ? static_cast<gpurun_stream>(stream) : GPURUN_HOST,
                      (rank() + round) % size() * 2000);
}

TEST_CASE("a barrier in a stream does not make its caller wait for the stream") {
    const Stream stream;
    std::atomic<bool> open = false;
    REQUIRE_OK(gpurun_launch_host(
        stream,
        [](void* gate) {
            while (!*static_cast<std::atomic<bool>*>(gate))
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
        },
        &open));
    REQUIRE_OK(gpurun_barrier(kWorld, stream));
    int done = -1;
    REQUIRE_OK(gpurun_stream_query(stream, &done));
    CHECK(done == 0);
    open = true;
    stream.synchronize();
}

TEST_CASE("many barriers in a row keep all ranks together") {
    const Stream stream;
    for (int round = 0; round < 200; round++) {
        REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
        REQUIRE_OK(gpurun_barrier(kWorld, stream));
    }
    stream.synchronize();
}

TEST_SUITE_END();

} // namespace gpurun::test::barrier
