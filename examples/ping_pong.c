// ping_pong: how long a message of device memory takes from rank 0 to rank 1, in both order domains.
//
//     gpurun -n 2 ./ping_pong [ROUNDS]
//
// "host" is MPI's way: each call returns when its message has moved. "stream" enqueues all rounds and waits once, at
// the end: each rank's send starts when the receive before it in the stream has the data.
#include "check.h"

#include <stdlib.h>
#include <string.h>

static const size_t kSizes[] = {8, 1024, 32768, 262144, 1048576};
enum { kSizeCount = sizeof kSizes / sizeof kSizes[0], kTag = 0 };

// Rank 0 sends `ball`; rank 1 returns what it got; rank 0 catches it in `caught`.
static void play(int rank, void *ball, void *caught, size_t bytes, int rounds, gpurun_stream stream) {
    for (int round = 0; round < rounds; round++) {
        if (rank == 0) {
            CHECK(gpurun_send(ball, bytes, GPURUN_BYTE, 1, kTag, GPURUN_COMM_WORLD, stream));
            CHECK(gpurun_recv(caught, bytes, GPURUN_BYTE, 1, kTag, GPURUN_COMM_WORLD, stream, NULL));
        } else {
            CHECK(gpurun_recv(caught, bytes, GPURUN_BYTE, 0, kTag, GPURUN_COMM_WORLD, stream, NULL));
            CHECK(gpurun_send(caught, bytes, GPURUN_BYTE, 0, kTag, GPURUN_COMM_WORLD, stream));
        }
    }
    if (stream != GPURUN_HOST)
        CHECK(gpurun_stream_synchronize(stream));
}

static double one_way_us(int rank, void *ball, void *caught, size_t bytes, int rounds, gpurun_stream stream) {
    play(rank, ball, caught, bytes, 3, stream); // the first messages set up what later ones use
    CHECK(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    double start = gpurun_wtime();
    play(rank, ball, caught, bytes, rounds, stream);
    return (gpurun_wtime() - start) * 1e6 / (2.0 * rounds);
}

static void measure(int rank, size_t bytes, int rounds, gpurun_stream stream) {
    void *ball, *caught;
    unsigned char *host = malloc(bytes);
    EXPECT(host != NULL, "no memory");
    CHECK(gpurun_malloc(&ball, bytes));
    CHECK(gpurun_malloc(&caught, bytes));
    for (size_t i = 0; i < bytes; i++)
        host[i] = (unsigned char)(i * 7 + bytes);
    CHECK(gpurun_memcpy(ball, host, bytes, GPURUN_HOST));

    double host_us = one_way_us(rank, ball, caught, bytes, rounds, GPURUN_HOST);
    CHECK(gpurun_memset(caught, 0, bytes, stream));
    double stream_us = one_way_us(rank, ball, caught, bytes, rounds, stream);

    memset(host, 0, bytes);
    CHECK(gpurun_memcpy(host, caught, bytes, GPURUN_HOST));
    for (size_t i = 0; i < bytes; i++)
        EXPECT(host[i] == (unsigned char)(i * 7 + bytes), "byte %zu of %zu", i, bytes);
    if (rank == 0)
        printf("%10zu %10.2f %10.2f\n", bytes, host_us, stream_us);
    CHECK(gpurun_free(caught));
    CHECK(gpurun_free(ball));
    free(host);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    int rank, size;
    gpurun_stream stream;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    EXPECT(size == 2 && rounds > 0, "needs two ranks (gpurun -n 2) and at least one round");
    CHECK(gpurun_stream_create(&stream));

    if (rank == 0)
        printf("one way, microseconds\n%10s %10s %10s\n", "bytes", "host", "stream");
    for (int i = 0; i < kSizeCount; i++)
        measure(rank, kSizes[i], rounds, stream);

    CHECK(gpurun_stream_destroy(stream));
    CHECK(gpurun_finalize());
    return 0;
}
