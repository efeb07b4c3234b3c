// gpurun_finalize() waits until this rank's messages have moved, when its device comes to them long after everybody has
// called it, so that no peer has anything to say any more: rank 0 has started messages to itself on streams that are
// busy, and waits for none.
#define _POSIX_C_SOURCE 200809L // nanosleep
#include "support/must.h"

#include <stdio.h>
#include <time.h>

enum { kSizes = 4 };
static const size_t kBytes[kSizes] = {0, 8, 100000, 3000000};
static char received[kSizes][3000000];

// Stands for a kernel that takes long.
static void be_busy(void* argument) {
    struct timespec long_time = {.tv_nsec = 150000000};
    (void)argument;
    nanosleep(&long_time, NULL);
}

static void start_and_leave(int i) {
    gpurun_request out, in;
    gpurun_stream stream;
    void* buffer;
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc(&buffer, kBytes[i]));
    MUST(gpurun_memset(buffer, i + 1, kBytes[i], stream));
    MUST(gpurun_launch_host(stream, be_busy, NULL));
    MUST(gpurun_isend(buffer, kBytes[i], GPURUN_BYTE, 0, i, GPURUN_COMM_WORLD, stream, &out));
    MUST(gpurun_irecv(received[i], kBytes[i], GPURUN_BYTE, 0, i, GPURUN_COMM_WORLD, stream, &in));
    if (i % 2 == 0)
        MUST(gpurun_request_free(&out));
}

static void check(int i) {
    for (size_t at = 0; at < kBytes[i]; at++)
        if (received[i][at] != i + 1) {
            fprintf(stderr, "message %d: byte %zu is %d\n", i, at, received[i][at]);
            gpurun_abort(1);
        }
}

int main(void) {
    int rank;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    if (rank == 0)
        for (int i = 0; i < kSizes; i++)
            start_and_leave(i);
    MUST(gpurun_finalize());
    if (rank == 0)
        for (int i = 0; i < kSizes; i++)
            check(i);
    return 0;
}
