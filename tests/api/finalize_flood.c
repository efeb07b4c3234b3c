// Every rank starts hundreds of messages to all and from all on one stream, more than rings and buffers hold, waits for
// none, and finalizes: all of them move, and nobody waits for the other in vain.
#include "support/must.h"

enum { kMessages = 600, kBytes = 8, kMostRanks = 8 };
static char received[kMostRanks][kMessages][kBytes];

static void check(int peer, int i) {
    for (int at = 0; at < kBytes; at++)
        if (received[peer][i][at] != peer + 1) {
            fprintf(stderr, "message %d of rank %d has not come\n", i, peer);
            gpurun_abort(1);
        }
}

int main(void) {
    int rank, size;
    void* sent;
    gpurun_stream stream;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc(&sent, kBytes));
    MUST(gpurun_memset(sent, rank + 1, kBytes, stream));
    for (int i = 0; i < kMessages; i++)
        for (int peer = 0; peer < size && peer < kMostRanks; peer++) {
            gpurun_request request;
            MUST(gpurun_isend(sent, kBytes, GPURUN_BYTE, peer, i, GPURUN_COMM_WORLD, stream, &request));
            MUST(gpurun_request_free(&request));
            MUST(gpurun_irecv(received[peer][i], kBytes, GPURUN_BYTE, peer, i, GPURUN_COMM_WORLD, stream, &request));
        }
    MUST(gpurun_finalize());
    for (int i = 0; i < kMessages; i++)
        for (int peer = 0; peer < size && peer < kMostRanks; peer++)
            check(peer, i);
    return 0;
}
