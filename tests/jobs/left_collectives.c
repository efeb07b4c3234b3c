// left_collectives: collectives in a stream, whose requests are freed before anybody waits for them.
//
// Rank 1's stream is busy before it comes to them. So all ranks are asleep in gpurun_finalize() when the last thing
// that they wait for comes to its end: an internal stream, and no message.
#include "support/must.h"

enum { kBytes = 1 << 20, kWork = 64 << 20, kTimes = 16 };

int main(void) {
    int rank;
    gpurun_stream stream;
    gpurun_request requests[2];
    void *message, *work;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc(&message, kBytes));
    MUST(gpurun_malloc(&work, kWork));

    for (int i = 0; rank == 1 && i < kTimes; i++)
        MUST(gpurun_memset(work, i, kWork, stream));
    MUST(gpurun_ibarrier(GPURUN_COMM_WORLD, stream, &requests[0]));
    MUST(gpurun_ibcast(message, kBytes, GPURUN_BYTE, 1, GPURUN_COMM_WORLD, stream, &requests[1]));
    for (int i = 0; i < 2; i++)
        MUST(gpurun_request_free(&requests[i]));
    MUST(gpurun_finalize());
    return 0;
}
