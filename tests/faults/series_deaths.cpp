// Deaths in the middle of series: messages that are started and completed in one stream again and again.
#include "peer_lost.hpp"

namespace faults {

namespace {

// Two messages each way, from the third time on in one kernel.
gpurun_status cross_series(const Job& job, int other, size_t bytes) {
    gpurun_request requests[4]{};
    for (size_t i = 0; i < 2; i++)
        MUST(gpurun_irecv(static_cast<char*>(job.device) + i * bytes, bytes, GPURUN_BYTE, other, kTag,
                          GPURUN_COMM_WORLD, job.stream, &requests[i]));
    for (size_t i = 0; i < 2; i++)
        MUST(gpurun_isend(static_cast<char*>(job.other) + i * bytes, bytes, GPURUN_BYTE, other, kTag, GPURUN_COMM_WORLD,
                          job.stream, &requests[2 + i]));
    return gpurun_waitall(4, requests, job.stream, nullptr);
}

constexpr int kRounds = 8; // that are under way at a time

} // namespace

// The stream is told once of what was under way in it.
gpurun_status cross_series_until_lost(const Job& job, size_t bytes) {
    gpurun_status result = GPURUN_OK;
    while (result == GPURUN_OK) {
        for (int round = 0; round < kRounds && result == GPURUN_OK; round++)
            result = cross_series(job, job.victim(), bytes);
        const gpurun_status synchronized = gpurun_stream_synchronize(job.stream);
        result = result != GPURUN_OK ? result : synchronized;
    }
    return result;
}

void victim_crosses_series(const Job& job, size_t bytes) {
    for (int rank = 0;; rank = (rank + 1) % job.victim()) {
        for (int round = 0; round < kRounds; round++)
            MUST(cross_series(job, rank, bytes));
        MUST(gpurun_stream_synchronize(job.stream));
    }
}

} // namespace faults
