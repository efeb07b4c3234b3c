// graph: messages are captured once, with the work around them, and move again in every run of the graph.
//
//     gpurun -n 2 ./graph [RUNS]
//
// Even ranks play ping-pong with the odd rank after them. "enqueued" makes every call for every message. "captured"
// makes the calls of some rounds once, while the stream is captured, and runs that graph: a run is one call, and its
// messages move without the hosts. Each run of a second graph, which also loads and unloads the ball, must bring back
// what its host has written before.
#include "ping_pong.h"

#include <string.h>

static const size_t kSizes[] = {8, 1024, 32768, 1048576};
enum { kSizeCount = sizeof kSizes / sizeof kSizes[0], kRounds = 10, kChecked = 20, kSkipped = 77 };

static double one_way_us(double start, int runs) {
    return (gpurun_wtime() - start) * 1e6 / (2.0 * kRounds * (double)runs);
}

static double enqueued_us(int rank, const struct ball *ball, int runs, gpurun_stream stream) {
    play(rank, ball, kRounds, stream); // the first messages set up what later ones use
    CHECK(gpurun_stream_synchronize(stream));
    CHECK(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    double start = gpurun_wtime();
    for (int run = 0; run < runs; run++)
        play(rank, ball, kRounds, stream);
    CHECK(gpurun_stream_synchronize(stream));
    return one_way_us(start, runs);
}

static double captured_us(int rank, const struct ball *ball, int runs, gpurun_stream stream) {
    gpurun_graph graph;
    CHECK(gpurun_capture_begin(stream));
    play(rank, ball, kRounds, stream);
    CHECK(gpurun_capture_end(stream, &graph));

    CHECK(gpurun_graph_launch(graph, stream)); // the first run sets up the graph
    CHECK(gpurun_stream_synchronize(stream));
    CHECK(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    double start = gpurun_wtime();
    for (int run = 0; run < runs; run++)
        CHECK(gpurun_graph_launch(graph, stream));
    CHECK(gpurun_stream_synchronize(stream));
    double us = one_way_us(start, runs);
    CHECK(gpurun_graph_destroy(graph));
    return us;
}

// A run brings back what was in pinned memory when it started, not what earlier runs have left somewhere.
static void check_runs(int rank, const struct ball *ball, gpurun_stream stream) {
    gpurun_graph graph;
    void *written, *read;
    CHECK(gpurun_malloc_host(&written, ball->bytes));
    CHECK(gpurun_malloc_host(&read, ball->bytes));
    CHECK(gpurun_capture_begin(stream));
    CHECK(gpurun_memcpy(ball->served, written, ball->bytes, stream));
    play(rank, ball, 1, stream);
    CHECK(gpurun_memcpy(read, ball->caught, ball->bytes, stream));
    CHECK(gpurun_memset(ball->caught, 0, ball->bytes, stream));
    CHECK(gpurun_capture_end(stream, &graph));

    for (int run = 0; run < kChecked; run++) {
        memset(written, run + 1, ball->bytes);
        CHECK(gpurun_graph_launch(graph, stream));
        CHECK(gpurun_stream_synchronize(stream));
        EXPECT(memcmp(read, written, ball->bytes) == 0, "run %d of %zu bytes", run, ball->bytes);
    }
    CHECK(gpurun_graph_destroy(graph));
    CHECK(gpurun_free(read));
    CHECK(gpurun_free(written));
}

static void measure(int rank, size_t bytes, int runs, gpurun_stream stream) {
    struct ball ball = create_ball(bytes);
    paint(&ball, bytes);
    double enqueued = enqueued_us(rank, &ball, runs, stream);
    CHECK(gpurun_memset(ball.caught, 0, bytes, stream));
    double captured = captured_us(rank, &ball, runs, stream);
    look_at_caught(&ball, bytes);
    check_runs(rank, &ball, stream);
    if (rank == 0)
        printf("%10zu %10.2f %10.2f\n", bytes, enqueued, captured);
    destroy_ball(&ball);
}

// Not without peer access, nor where ranks share a GPU without MPS. Both ranks of a pair find the same.
static int can_capture(int rank, gpurun_stream stream) {
    gpurun_graph graph;
    int other = rank ^ 1;
    CHECK(gpurun_capture_begin(stream));
    gpurun_status status = gpurun_sendrecv(NULL, 0, GPURUN_BYTE, other, kBallTag, NULL, 0, GPURUN_BYTE, other, kBallTag,
                                           GPURUN_COMM_WORLD, stream, NULL);
    if (status == GPURUN_ERR_UNSUPPORTED)
        fprintf(stderr, "skipped: rank %d: %s\n", rank, gpurun_error_detail());
    else
        CHECK(status);
    CHECK(gpurun_capture_end(stream, &graph));
    CHECK(gpurun_graph_destroy(graph));
    return status == GPURUN_OK;
}

int main(int argc, char **argv) {
    int runs = argc > 1 ? atoi(argv[1]) : 200;
    int rank, size;
    gpurun_stream stream;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    EXPECT(size % 2 == 0 && runs > 0, "needs an even number of ranks (gpurun -n 2) and at least one run");
    CHECK(gpurun_stream_create(&stream));

    int status = can_capture(rank, stream) ? 0 : kSkipped;
    if (rank == 0 && status == 0)
        printf("one way, microseconds\n%10s %10s %10s\n", "bytes", "enqueued", "captured");
    for (int i = 0; i < kSizeCount && status == 0; i++)
        measure(rank, kSizes[i], runs, stream);

    CHECK(gpurun_stream_destroy(stream));
    CHECK(gpurun_finalize());
    return status;
}
