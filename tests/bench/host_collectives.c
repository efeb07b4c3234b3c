/* What collectives on host memory take, by gpurun or by an MPI library: host_collectives SIZE... prints JSON rows.
 *
 * A sample is a row of calls and a barrier behind them, so that it ends when all ranks have ended; the median of the
 * samples, by call. SIZE is what a rank gives, to each of the others in an all-to-all. Built with -DWITH_MPI by
 * mpi_compare.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_MPI
#include <mpi.h>

static void start(int* rank, int* ranks) {
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
}
static void end(void) { MPI_Finalize(); }
static double now(void) { return MPI_Wtime(); }
static void barrier(int size) {
    (void)size;
    MPI_Barrier(MPI_COMM_WORLD);
}
static float *given, *got;
static void allreduce(int size) { MPI_Allreduce(given, got, size / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
static void bcast(int size) { MPI_Bcast(got, size, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void allgather(int size) { MPI_Allgather(given, size, MPI_BYTE, got, size, MPI_BYTE, MPI_COMM_WORLD); }
static void alltoall(int size) { MPI_Alltoall(given, size, MPI_BYTE, got, size, MPI_BYTE, MPI_COMM_WORLD); }
#else
#include "support/must.h"

static void start(int* rank, int* ranks) {
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, rank));
    MUST(gpurun_comm_size(GPURUN_COMM_WORLD, ranks));
}
static void end(void) { MUST(gpurun_finalize()); }
static double now(void) { return gpurun_wtime(); }
static void barrier(int size) {
    (void)size;
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
}
static float *given, *got;
static void allreduce(int size) {
    MUST(gpurun_allreduce(given, got, (size_t)size / 4, GPURUN_FLOAT, GPURUN_SUM, GPURUN_COMM_WORLD, GPURUN_HOST));
}
static void bcast(int size) { MUST(gpurun_bcast(got, (size_t)size, GPURUN_BYTE, 0, GPURUN_COMM_WORLD, GPURUN_HOST)); }
static void allgather(int size) {
    MUST(gpurun_allgather(given, (size_t)size, GPURUN_BYTE, got, (size_t)size, GPURUN_BYTE, GPURUN_COMM_WORLD,
                          GPURUN_HOST));
}
static void alltoall(int size) {
    MUST(gpurun_alltoall(given, (size_t)size, GPURUN_BYTE, got, (size_t)size, GPURUN_BYTE, GPURUN_COMM_WORLD,
                         GPURUN_HOST));
}
#endif

enum { kMostSamples = 100 };

static int by_size(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

/* Seconds of one call. */
static double median_of(void (*call)(int), int size) {
    static double taken[kMostSamples];
    const int calls = size < 65536 ? 100 : size < 1 << 20 ? 20 : 4;
    const int samples = size < 65536 ? kMostSamples : kMostSamples / 2;
    for (int sample = -samples / 10; sample < samples; sample++) {
        barrier(0);
        const double begin = now();
        for (int i = 0; i < calls; i++)
            call(size);
        barrier(0);
        if (sample >= 0)
            taken[sample] = (now() - begin) / calls;
    }
    qsort(taken, (size_t)samples, sizeof(double), by_size);
    return taken[samples / 2];
}

int main(int argc, char** argv) {
    static const struct {
        const char* name;
        void (*call)(int);
    } kTests[] = {{"allreduce", allreduce}, {"bcast", bcast}, {"allgather", allgather}, {"alltoall", alltoall}};
    int rank, ranks;
    start(&rank, &ranks);
    int largest = 4;
    for (int i = 1; i < argc; i++)
        largest = atoi(argv[i]) > largest ? atoi(argv[i]) : largest;
    const size_t room = (size_t)largest * (size_t)ranks;
    given = malloc(room);
    got = malloc(room);
    memset(given, 0, room);
    memset(got, 0, room);
    const double barrier_us = median_of(barrier, 0) * 1e6;
    if (rank == 0)
        printf("[{\"test\": \"barrier\", \"bytes\": 0, \"median_us\": %.6f}", barrier_us);
    for (size_t test = 0; test < sizeof kTests / sizeof kTests[0]; test++)
        for (int i = 1; i < argc; i++) {
            const double call_us = median_of(kTests[test].call, atoi(argv[i])) * 1e6;
            if (rank == 0)
                printf(",\n{\"test\": \"%s\", \"bytes\": %s, \"median_us\": %.6f}", kTests[test].name, argv[i],
                       call_us);
        }
    if (rank == 0)
        printf("]\n");
    free(given);
    free(got);
    end();
    return 0;
}
