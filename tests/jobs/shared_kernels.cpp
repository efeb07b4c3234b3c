// shared_kernels: windows of small messages from rank 0 to rank 1, for shared_kernels_test.py to find in the report how
// many of them shared kernels. shared_kernels DOMAIN, where each window is started: host, idle or busy (a stream).
#include "support/must.h"

#include <atomic>
#include <string>
#include <thread>

namespace {

constexpr int kWindows = 10, kMany = 64, kBytes = 8;

void hold(void* open) {
    while (!*static_cast<std::atomic<bool>*>(open))
        std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void await_idle(gpurun_stream stream) {
    for (int done = 0; done == 0;)
        MUST(gpurun_stream_query(stream, &done));
}

} // namespace

int main(int argc, char** argv) {
    const std::string where = argc > 1 ? argv[1] : "";
    gpurun_stream stream;
    void* memory;
    int rank;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc(&memory, kMany * kBytes));
    const gpurun_stream domain = where == "host" ? GPURUN_HOST : stream;
    const auto buffer = [&](int i) { return static_cast<char*>(memory) + i * kBytes; };
    for (int window = 0; window < kWindows; window++) {
        gpurun_request requests[kMany];
        std::atomic<bool> open{false};
        if (where == "busy")
            MUST(gpurun_launch_host(stream, hold, &open));
        for (int i = 0; i < kMany && rank == 1; i++)
            MUST(gpurun_irecv(buffer(i), kBytes, GPURUN_BYTE, 0, 0, GPURUN_COMM_WORLD, domain, &requests[i]));
        if (where == "idle" && rank == 1)
            await_idle(stream); // else a message may come before its receive's marker has passed, and goes alone
        MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST)); // no message comes before its receive
        for (int i = 0; i < kMany && rank == 0; i++) {
            if (where == "idle")
                await_idle(stream); // a row begins with messages that go into the stream
            MUST(gpurun_isend(buffer(i), kBytes, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, domain, &requests[i]));
        }
        MUST(gpurun_waitall(kMany, requests, domain, nullptr));
        open = true;
        MUST(gpurun_stream_synchronize(stream));
        MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    }
    MUST(gpurun_free(memory));
    MUST(gpurun_stream_destroy(stream));
    MUST(gpurun_finalize());
}
