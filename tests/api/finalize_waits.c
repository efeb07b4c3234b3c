// gpurun_finalize() waits until this rank's messages have moved: rank 0 leaves at once, rank 1 receives much later.
#define _POSIX_C_SOURCE 200809L // nanosleep
#include "support/must.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { kSmall = 1000, kLarge = 3000000 };

static char received[kLarge];

static void check(size_t bytes, char value, const char* what) {
    for (size_t i = 0; i < bytes; i++)
        if (received[i] != value) {
            fprintf(stderr, "%s: byte %zu is %d\n", what, i, received[i]);
            gpurun_abort(1);
        }
}

// Requests that are given up, or that nobody waits for.
static void start_and_leave(void* device, gpurun_stream stream) {
    static char large_host[kLarge];
    gpurun_request request;
    memset(large_host, 4, sizeof large_host);
    MUST(gpurun_isend(large_host, kLarge, GPURUN_BYTE, 1, 4, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
    MUST(gpurun_request_free(&request));
    MUST(gpurun_isend(device, kLarge, GPURUN_BYTE, 1, 5, GPURUN_COMM_WORLD, stream, &request));
    MUST(gpurun_request_free(&request));
    MUST(gpurun_issend(device, kSmall, GPURUN_BYTE, 1, 6, GPURUN_COMM_WORLD, stream, &request));
}

static void send_and_leave(void) {
    static char host[kSmall];
    gpurun_stream stream;
    void* device;
    memset(host, 1, sizeof host);
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc(&device, kLarge));
    MUST(gpurun_memset(device, 2, kLarge, stream));
    MUST(gpurun_send(host, kSmall, GPURUN_BYTE, 1, 1, GPURUN_COMM_WORLD, GPURUN_HOST));
    MUST(gpurun_send(device, kSmall, GPURUN_BYTE, 1, 2, GPURUN_COMM_WORLD, stream));
    MUST(gpurun_send(device, kLarge, GPURUN_BYTE, 1, 3, GPURUN_COMM_WORLD, stream));
    start_and_leave(device, stream);
}

static void receive_late(void) {
    struct timespec late = {.tv_nsec = 200000000};
    nanosleep(&late, NULL);
    MUST(gpurun_recv(received, kLarge, GPURUN_BYTE, 0, 3, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    check(kLarge, 2, "large device message");
    nanosleep(&late, NULL);
    MUST(gpurun_recv(received, kSmall, GPURUN_BYTE, 0, 1, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    check(kSmall, 1, "small host message");
    MUST(gpurun_recv(received, kSmall, GPURUN_BYTE, 0, 2, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    check(kSmall, 2, "small device message");
    nanosleep(&late, NULL);
    MUST(gpurun_recv(received, kSmall, GPURUN_BYTE, 0, 6, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    check(kSmall, 2, "started synchronous message");
    MUST(gpurun_recv(received, kLarge, GPURUN_BYTE, 0, 5, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    check(kLarge, 2, "started large device message");
    MUST(gpurun_recv(received, kLarge, GPURUN_BYTE, 0, 4, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    check(kLarge, 4, "started large host message");
}

int main(void) {
    int rank;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    if (rank == 0)
        send_and_leave();
    else if (rank == 1)
        receive_late();
    MUST(gpurun_finalize());
    return 0;
}
