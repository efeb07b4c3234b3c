// heat: the temperature of a plate whose upper edge is hot, by Jacobi's method, its rows divided among the ranks, which
// form a grid of one dimension (plate.h).
//
//     gpurun -n 4 ./heat [--size N] [--steps MOST] [--output FILE.ppm]
//
// Each rank keeps its rows and a copy of the neighbours' nearest row on both sides (the halo) in device memory. A step
// is: exchange halos, run a kernel. Both are enqueued in one stream; the host only waits when it asks how far the
// field still moves. Rank 0 gathers the result and compares it with a serial solution.
#include "heat_picture.h"
#include "kernels/choose.h"
#include "kernels/heat_kernels.h"
#include "plate.h"

static const float kHot = 100.0f;    // degrees; the other edges are at 0
static const float kSettled = 1e-3f; // degrees that a cell may still move in a step
enum { kCheckEvery = 100 };

// A plate at 0 degrees, its upper edge hot.
static float *cold_plate(size_t size) {
    float *plate = make_plate(size);
    for (size_t column = 0; column < size; column++)
        plate[column] = kHot;
    return plate;
}

// Own outer rows to the neighbours, their outer rows into the halo.
static void exchange_halos(const struct part *part) {
    size_t cells = part->columns;
    CHECK(gpurun_sendrecv(row_of(part, 1), cells, GPURUN_FLOAT, part->above, kTagUp, row_of(part, part->rows + 1),
                          cells, GPURUN_FLOAT, part->below, kTagUp, part->line, part->stream, NULL));
    CHECK(gpurun_sendrecv(row_of(part, part->rows), cells, GPURUN_FLOAT, part->below, kTagDown, row_of(part, 0), cells,
                          GPURUN_FLOAT, part->above, kTagDown, part->line, part->stream, NULL));
}

// The largest change of any rank's cells, known to all ranks.
static float largest_change(const struct part *part) {
    float largest;
    CHECK(
        gpurun_allreduce(GPURUN_IN_PLACE, part->change, 1, GPURUN_FLOAT, GPURUN_MAX, GPURUN_COMM_WORLD, part->stream));
    CHECK(gpurun_memcpy(&largest, part->change, sizeof largest, part->stream));
    CHECK(gpurun_stream_synchronize(part->stream));
    return largest;
}

// Steps until the field has settled; returns how many.
static int solve(struct part *part, const struct heat_kernels *kernels, int most_steps) {
    for (int step = 1; step <= most_steps; step++) {
        int check = step % kCheckEvery == 0;
        exchange_halos(part);
        if (check)
            CHECK(gpurun_memset(part->change, 0, sizeof(float), part->stream));
        kernels->step(part->stream, part->next, part->now, part->rows + 2, part->columns, part->change);
        take_step(part);
        if (check && largest_change(part) < kSettled)
            return step;
    }
    return most_steps;
}

int main(int argc, char **argv) {
    struct options options = {.size = 64, .steps = 100000};
    read_options(&options, argc, argv);
    struct part part;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &part.rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &part.size));
    EXPECT(options.size >= (size_t)part.size + 2, "a plate of %zu rows is too small for %d ranks", options.size,
           part.size);

    float *plate = cold_plate(options.size);
    create_part(&part, plate, options.size);
    int steps = solve(&part, CHOOSE_KERNELS(heat_kernels), options.steps);
    gather(&part, plate);
    if (part.rank == 0) {
        compare_with_serial(plate, cold_plate(options.size), options.size, steps);
        printf("settled after %d steps on %d ranks, as the serial solution\n", steps, part.size);
        if (options.output != NULL)
            write_picture(options.output, plate, options.size, options.size, kHot);
    }
    free(plate);
    destroy_part(&part);
    CHECK(gpurun_finalize());
    return 0;
}
