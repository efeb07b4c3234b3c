// ping_pong: how long a message of device memory takes from rank 0 to rank 1, in both order domains.
//
//     gpurun -n 2 ./ping_pong [ROUNDS]
//
// "host" is MPI's way: each call returns when its message has moved. "stream" enqueues all rounds and waits once, at
// the end: each rank's send starts when the receive before it in the stream has the data.
#include "ping_pong.h"

static const size_t kSizes[] = {8, 1024, 32768, 262144, 1048576};
enum { kSizeCount = sizeof kSizes / sizeof kSizes[0], kWarmUp = 3 };

static double one_way_us(int rank, const struct ball *ball, int rounds, gpurun_stream stream) {
    play(rank, ball, kWarmUp, stream); // the first messages set up what later ones use
    CHECK(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    double start = gpurun_wtime();
    play(rank, ball, rounds, stream);
    if (stream != GPURUN_HOST)
        CHECK(gpurun_stream_synchronize(stream));
    return (gpurun_wtime() - start) * 1e6 / (2.0 * rounds);
}

static void measure(int rank, size_t bytes, int rounds, gpurun_stream stream) {
    struct ball ball = create_ball(bytes);
    paint(&ball, bytes);
    double host_us = one_way_us(rank, &ball, rounds, GPURUN_HOST);
    CHECK(gpurun_memset(ball.caught, 0, bytes, stream));
    double stream_us = one_way_us(rank, &ball, rounds, stream);
    look_at_caught(&ball, bytes);
    if (rank == 0)
        printf("%10zu %10.2f %10.2f\n", bytes, host_us, stream_us);
    destroy_ball(&ball);
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
