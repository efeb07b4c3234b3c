/* What messages in host memory take, by gpurun or by an MPI library: host_peer SIZE... prints JSON rows.
 *
 * latency: half a ping-pong; bandwidth: windows of 64 isend and irecv with a buffer each, and a word back; rate: the
 * same, counted as messages. Medians, after a tenth as much to warm up. Built with -DWITH_MPI by
 * mpi_compare.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_MPI
#include <mpi.h>

typedef MPI_Request request;

static void start(int* rank) {
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
}
static void end(void) { MPI_Finalize(); }
static double now(void) { return MPI_Wtime(); }
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void send(void* bytes, int size, int peer) { MPI_Send(bytes, size, MPI_CHAR, peer, 0, MPI_COMM_WORLD); }
static void receive(void* bytes, int size, int peer) {
    MPI_Recv(bytes, size, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void start_send(void* bytes, int size, int peer, request* made) {
    MPI_Isend(bytes, size, MPI_CHAR, peer, 0, MPI_COMM_WORLD, made);
}
static void start_receive(void* bytes, int size, int peer, request* made) {
    MPI_Irecv(bytes, size, MPI_CHAR, peer, 0, MPI_COMM_WORLD, made);
}
static void wait_for_all(int count, request* requests) { MPI_Waitall(count, requests, MPI_STATUSES_IGNORE); }
#else
#include "support/must.h"

typedef gpurun_request request;

static void start(int* rank) {
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, rank));
}
static void end(void) { MUST(gpurun_finalize()); }
static double now(void) { return gpurun_wtime(); }
static void barrier(void) { MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST)); }
static void send(void* bytes, int size, int peer) {
    MUST(gpurun_send(bytes, (size_t)size, GPURUN_BYTE, peer, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
}
static void receive(void* bytes, int size, int peer) {
    MUST(gpurun_recv(bytes, (size_t)size, GPURUN_BYTE, peer, 0, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
}
static void start_send(void* bytes, int size, int peer, request* made) {
    MUST(gpurun_isend(bytes, (size_t)size, GPURUN_BYTE, peer, 0, GPURUN_COMM_WORLD, GPURUN_HOST, made));
}
static void start_receive(void* bytes, int size, int peer, request* made) {
    MUST(gpurun_irecv(bytes, (size_t)size, GPURUN_BYTE, peer, 0, GPURUN_COMM_WORLD, GPURUN_HOST, made));
}
static void wait_for_all(int count, request* requests) {
    MUST(gpurun_waitall((size_t)count, requests, GPURUN_HOST, NULL));
}
#endif

enum { kWindow = 64, kMostSamples = 200 };

static int rank;
static char* buffer;

static void ping_pong(int bytes, int turns) {
    for (int i = 0; i < turns; i++) {
        if (rank == 0)
            send(buffer, bytes, 1);
        receive(buffer, bytes, 1 - rank);
        if (rank == 1)
            send(buffer, bytes, 0);
    }
}

static void windows(int bytes, int turns) {
    request requests[kWindow];
    for (int i = 0; i < turns; i++) {
        for (int k = 0; k < kWindow; k++) {
            char* mine = buffer + (size_t)k * bytes;
            if (rank == 0)
                start_send(mine, bytes, 1, &requests[k]);
            else
                start_receive(mine, bytes, 0, &requests[k]);
        }
        wait_for_all(kWindow, requests);
        if (rank == 0)
            receive(buffer, 4, 1);
        else
            send(buffer, 4, 0);
    }
}

static int by_size(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

/* Seconds of one turn. */
static double median_of(void (*turn)(int, int), int bytes, int turns) {
    static double taken[kMostSamples];
    const int samples = bytes < 65536 ? kMostSamples : kMostSamples / 5;
    for (int sample = -samples / 10; sample < samples; sample++) {
        barrier();
        const double begin = now();
        turn(bytes, turns);
        if (sample >= 0)
            taken[sample] = (now() - begin) / turns;
    }
    qsort(taken, (size_t)samples, sizeof(double), by_size);
    return taken[samples / 2];
}

int main(int argc, char** argv) {
    start(&rank);
    int largest = 4;
    for (int i = 1; i < argc; i++)
        largest = atoi(argv[i]) > largest ? atoi(argv[i]) : largest;
    buffer = malloc((size_t)largest * kWindow);
    memset(buffer, 1, (size_t)largest * kWindow);
    const char* before = "[";
    for (int i = 1; i < argc; i++) {
        const int bytes = atoi(argv[i]), turns = bytes < 65536 ? 50 : 2;
        const double one_way_us = median_of(ping_pong, bytes, turns) / 2 * 1e6;
        const double window_s = median_of(windows, bytes, turns);
        if (rank == 0)
            printf("%s{\"test\": \"latency\", \"bytes\": %d, \"median_us\": %.6f},\n"
                   "{\"test\": \"bandwidth\", \"bytes\": %d, \"bytes_per_second\": %.0f},\n"
                   "{\"test\": \"rate\", \"bytes\": %d, \"messages_per_second\": %.0f}",
                   before, bytes, one_way_us, bytes, kWindow * (double)bytes / window_s, bytes, kWindow / window_s);
        before = ",\n";
    }
    if (rank == 0)
        printf("]\n");
    free(buffer);
    end();
    return 0;
}
