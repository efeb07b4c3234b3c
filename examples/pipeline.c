// pipeline: plates go through all ranks, one after another, and each rank is a stage that makes some steps of Jacobi's
// method on each (plate.h). While a rank works on one plate, the next one comes in and the one before goes out.
//
//     gpurun -n 4 ./pipeline [PLATES]
//
// There are two lanes, each a stream with memory of its own: receive, compute, send. The lanes take turns, so what one
// of them waits for holds up the work of the other only where the device is busy. The host waits at the end alone.
#include "kernels/choose.h"
#include "kernels/heat_kernels.h"
#include "plate.h"

enum { kSide = 130, kSteps = 10, kLanes = 2, kMostPlates = 10000 }; // an even number of steps ends where it began

static const size_t kCells = (size_t)kSide * kSide, kBytes = (size_t)kSide * kSide * sizeof(float);

struct lane {
    gpurun_stream stream;
    float *now, *next, *change; // device memory
};

static void create_lane(struct lane *lane) {
    void *memory[3];
    CHECK(gpurun_stream_create(&lane->stream));
    for (int i = 0; i < 3; i++)
        CHECK(gpurun_malloc(&memory[i], i < 2 ? kBytes : sizeof(float)));
    lane->now = memory[0];
    lane->next = memory[1];
    lane->change = memory[2];
    CHECK(gpurun_memset(lane->change, 0, sizeof(float), lane->stream));
}

static void destroy_lane(struct lane *lane) {
    CHECK(gpurun_stream_destroy(lane->stream));
    CHECK(gpurun_free(lane->change));
    CHECK(gpurun_free(lane->next));
    CHECK(gpurun_free(lane->now));
}

// A plate at 0 degrees whose upper edge is as hot as its number says.
static void heat_upper_edge(float *plate, int number) {
    memset(plate, 0, kBytes);
    for (size_t column = 0; column < kSide; column++)
        plate[column] = (float)(number % 7 + 1) * 10;
}

int main(int argc, char **argv) {
    int plates = argc > 1 ? atoi(argv[1]) : 40, rank, size;
    EXPECT(plates > 0 && plates <= kMostPlates, "there are 1 to %d plates, not %d", kMostPlates, plates);
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    int before = rank == 0 ? GPURUN_PROC_NULL : rank - 1, behind = rank + 1 < size ? rank + 1 : GPURUN_PROC_NULL;
    const struct heat_kernels *kernels = CHOOSE_KERNELS(heat_kernels);
    int is_last = rank + 1 == size;

    struct lane lanes[kLanes];
    for (int i = 0; i < kLanes; i++)
        create_lane(&lanes[i]);
    float *raw = malloc(kBytes * (size_t)plates); // what goes in at rank 0, and comes out at the last one
    EXPECT(raw != NULL, "no memory for %d plates", plates);
    for (int plate = 0; plate < plates; plate++)
        heat_upper_edge(raw + (size_t)plate * kCells, plate);

    CHECK(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    double begin = gpurun_wtime();
    for (int plate = 0; plate < plates; plate++) {
        struct lane *lane = &lanes[plate % kLanes];
        if (rank == 0)
            CHECK(gpurun_memcpy(lane->now, raw + (size_t)plate * kCells, kBytes, lane->stream));
        CHECK(gpurun_recv(lane->now, kCells, GPURUN_FLOAT, before, plate, GPURUN_COMM_WORLD, lane->stream, NULL));
        CHECK(gpurun_memcpy(lane->next, lane->now, kBytes, lane->stream)); // for the edges
        for (int step = 0; step < kSteps; step += 2) {
            kernels->step(lane->stream, lane->next, lane->now, kSide, kSide, lane->change);
            kernels->step(lane->stream, lane->now, lane->next, kSide, kSide, lane->change);
        }
        CHECK(gpurun_send(lane->now, kCells, GPURUN_FLOAT, behind, plate, GPURUN_COMM_WORLD, lane->stream));
        if (is_last)
            CHECK(gpurun_memcpy(raw + (size_t)plate * kCells, lane->now, kBytes, lane->stream));
    }
    for (int i = 0; i < kLanes; i++)
        CHECK(gpurun_stream_synchronize(lanes[i].stream));
    double seconds = gpurun_wtime() - begin;

    for (int plate = 0; is_last && plate < plates; plate++) {
        float *cold = make_plate(kSide);
        heat_upper_edge(cold, plate);
        compare_with_serial(raw + (size_t)plate * kCells, cold, kSide, kSteps * size);
    }
    if (is_last)
        printf("%d plates have gone through %d stages, as in the serial solution: %.0f plates a second\n", plates, size,
               plates / seconds);
    free(raw);
    for (int i = 0; i < kLanes; i++)
        destroy_lane(&lanes[i]);
    CHECK(gpurun_finalize());
    return 0;
}
