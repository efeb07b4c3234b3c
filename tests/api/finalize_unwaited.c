// finalize_unwaited LATE: rank 0 sends, rank 1 receives, neither waits, and rank LATE comes to gpurun_finalize() when
// the other one is long there. All that was sent has moved when it returns, and none of them waits for the other in
// vain.
#define _POSIX_C_SOURCE 200809L // nanosleep
#include "support/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kLongest = 3000000, kMessages = 6 };
static const size_t kBytes[kMessages] = {8, 20000, kLongest, 8, 20000, kLongest};
static char memory[kMessages][kLongest];

// The second half from device memory, on a stream.
static void start_send(int i) {
    gpurun_request request;
    gpurun_stream stream = GPURUN_HOST;
    void* buffer = memory[i];
    memset(memory[i], i + 1, kBytes[i]);
    if (i >= kMessages / 2) {
        MUST(gpurun_stream_create(&stream));
        MUST(gpurun_malloc(&buffer, kBytes[i]));
        MUST(gpurun_memcpy(buffer, memory[i], kBytes[i], stream));
    }
    MUST(gpurun_isend(buffer, kBytes[i], GPURUN_BYTE, 1, i, GPURUN_COMM_WORLD, stream, &request));
    MUST(gpurun_request_free(&request));
}

static void start_receive(int i) {
    gpurun_request request;
    MUST(gpurun_irecv(memory[i], kBytes[i], GPURUN_BYTE, 0, i, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
}

static void check(int i) {
    for (size_t at = 0; at < kBytes[i]; at++)
        if (memory[i][at] != i + 1) {
            fprintf(stderr, "message %d: byte %zu is %d\n", i, at, memory[i][at]);
            exit(1);
        }
}

int main(int argc, char** argv) {
    const struct timespec late = {.tv_nsec = 200000000};
    int rank;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    if (argc > 1 && atoi(argv[1]) == rank)
        nanosleep(&late, NULL);
    for (int i = 0; i < kMessages; i++)
        (rank == 0 ? start_send : start_receive)(i);
    MUST(gpurun_finalize());
    for (int i = 0; i < kMessages; i++)
        check(i);
    return 0;
}
