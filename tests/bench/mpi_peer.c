/* What an MPI library takes for what gpurun-perf measures of host memory: mpi_peer SIZE... prints JSON rows.
 *
 * latency: half a ping-pong; bandwidth: windows of 64 isend and irecv with a buffer each, and a word back; rate: the
 * same, counted as messages. Medians of kSamples, after a tenth of that to warm up. Built and run by mpi_compare.py. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWindow = 64, kSamples = 200 };

static int rank;
static char* buffer;

static void ping_pong(int bytes, int turns) {
    for (int i = 0; i < turns; i++) {
        if (rank == 0)
            MPI_Send(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, bytes, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    }
}

static void windows(int bytes, int turns) {
    MPI_Request requests[kWindow];
    for (int i = 0; i < turns; i++) {
        for (int k = 0; k < kWindow; k++) {
            char* mine = buffer + (size_t)k * bytes;
            if (rank == 0)
                MPI_Isend(mine, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &requests[k]);
            else
                MPI_Irecv(mine, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &requests[k]);
        }
        MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(buffer, 4, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(buffer, 4, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
}

static int by_size(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

/* Seconds of one turn. */
static double median_of(void (*turn)(int, int), int bytes, int turns) {
    static double taken[kSamples];
    for (int sample = -kSamples / 10; sample < kSamples; sample++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        turn(bytes, turns);
        if (sample >= 0)
            taken[sample] = (MPI_Wtime() - begin) / turns;
    }
    qsort(taken, kSamples, sizeof(double), by_size);
    return taken[kSamples / 2];
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
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
    MPI_Finalize();
    return 0;
}
