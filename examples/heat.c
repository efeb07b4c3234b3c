// heat: the temperature of a plate whose upper edge is hot, by Jacobi's method, its rows divided among the ranks.
//
//     gpurun -n 4 ./heat [--size N] [--steps MOST] [--output FILE.ppm]
//
// Each rank keeps its rows and a copy of the neighbours' nearest row on both sides (the halo) in device memory. A step
// is: exchange halos, run a kernel. Both are enqueued in one stream; the host only waits when it asks how far the
// field still moves. Rank 0 gathers the result and compares it with a serial solution.
#include "heat_picture.h"
#include "kernels/choose.h"
#include "kernels/heat_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float kHot = 100.0f;    // degrees; the other edges are at 0
static const float kSettled = 1e-3f; // degrees that a cell may still move in a step
enum { kCheckEvery = 100, kTagUp = 1, kTagDown = 2, kTagRows = 3, kTagChange = 4 };

// The part of the plate that one rank has: rows first to first + rows - 1 of the inner ones, and a halo row on each
// side (at the plate's edges, the edge itself).
struct part {
    int rank, size;
    size_t columns, first, rows;
    float *now, *next, *change; // device memory
    gpurun_stream stream;
};

struct options {
    size_t size;
    int most_steps;
    const char *output;
};

static struct options read_options(int argc, char **argv) {
    struct options options = {.size = 64, .most_steps = 100000};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--size") == 0)
            options.size = strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--steps") == 0)
            options.most_steps = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--output") == 0)
            options.output = argv[i + 1];
    }
    return options;
}

static size_t first_row(size_t inner_rows, int rank, int size) { return 1 + inner_rows * (size_t)rank / (size_t)size; }

// A plate at 0 degrees, its upper edge hot.
static float *cold_plate(size_t rows, size_t columns) {
    float *field = calloc(rows * columns, sizeof *field);
    EXPECT(field != NULL, "no memory for %zu cells", rows * columns);
    for (size_t column = 0; column < columns; column++)
        field[column] = kHot;
    return field;
}

static void create_part(struct part *part, size_t plate_size) {
    size_t inner = plate_size - 2;
    part->columns = plate_size;
    part->first = first_row(inner, part->rank, part->size);
    part->rows = first_row(inner, part->rank + 1, part->size) - part->first;
    size_t bytes = (part->rows + 2) * part->columns * sizeof(float);
    float *plate = cold_plate(plate_size, plate_size);
    void *memory[3];
    for (int i = 0; i < 3; i++)
        CHECK(gpurun_malloc(&memory[i], i < 2 ? bytes : sizeof(float)));
    part->now = memory[0];
    part->next = memory[1];
    part->change = memory[2];
    CHECK(gpurun_memcpy(part->now, plate + (part->first - 1) * part->columns, bytes, GPURUN_HOST));
    CHECK(gpurun_memcpy(part->next, part->now, bytes, GPURUN_HOST));
    CHECK(gpurun_stream_create(&part->stream));
    free(plate);
}

static void destroy_part(struct part *part) {
    CHECK(gpurun_stream_destroy(part->stream));
    CHECK(gpurun_free(part->change));
    CHECK(gpurun_free(part->next));
    CHECK(gpurun_free(part->now));
}

// Own outer rows to the neighbours, their outer rows into the halo. The plate's edges have no neighbour: messages
// with GPURUN_PROC_NULL do nothing.
static void exchange_halos(const struct part *part) {
    int above = part->rank > 0 ? part->rank - 1 : GPURUN_PROC_NULL;
    int below = part->rank + 1 < part->size ? part->rank + 1 : GPURUN_PROC_NULL;
    float *top_halo = part->now;
    float *top = top_halo + part->columns;
    float *bottom = part->now + part->rows * part->columns;
    float *bottom_halo = bottom + part->columns;
    CHECK(gpurun_sendrecv(top, part->columns, GPURUN_FLOAT, above, kTagUp, bottom_halo, part->columns, GPURUN_FLOAT,
                          below, kTagUp, GPURUN_COMM_WORLD, part->stream, NULL));
    CHECK(gpurun_sendrecv(bottom, part->columns, GPURUN_FLOAT, below, kTagDown, top_halo, part->columns, GPURUN_FLOAT,
                          above, kTagDown, GPURUN_COMM_WORLD, part->stream, NULL));
}

// The largest change of any rank's cells, known to all ranks.
static float largest_change(const struct part *part) {
    float largest;
    CHECK(gpurun_memcpy(&largest, part->change, sizeof largest, part->stream));
    CHECK(gpurun_stream_synchronize(part->stream));
    if (part->rank != 0)
        CHECK(gpurun_send(&largest, 1, GPURUN_FLOAT, 0, kTagChange, GPURUN_COMM_WORLD, GPURUN_HOST));
    for (int i = 1; part->rank == 0 && i < part->size; i++) {
        float change;
        CHECK(
            gpurun_recv(&change, 1, GPURUN_FLOAT, GPURUN_ANY_SOURCE, kTagChange, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
        largest = fmaxf(largest, change);
    }
    CHECK(gpurun_bcast(&largest, 1, GPURUN_FLOAT, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
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
        float *stepped = part->next;
        part->next = part->now;
        part->now = stepped;
        if (check && largest_change(part) < kSettled)
            return step;
    }
    return most_steps;
}

// The whole plate in rank 0's memory: rows leave each rank's device in the order of its stream and arrive in the
// order of rank 0's thread. NULL on the other ranks.
static float *gather(const struct part *part, size_t plate_size) {
    const float *own = part->now + part->columns;
    if (part->rank != 0) {
        CHECK(gpurun_send(own, part->rows * part->columns, GPURUN_FLOAT, 0, kTagRows, GPURUN_COMM_WORLD, part->stream));
        CHECK(gpurun_stream_synchronize(part->stream));
        return NULL;
    }
    float *plate = cold_plate(plate_size, plate_size);
    CHECK(gpurun_memcpy(plate + part->columns, own, part->rows * part->columns * sizeof *own, part->stream));
    CHECK(gpurun_stream_synchronize(part->stream));
    for (int rank = 1; rank < part->size; rank++) {
        size_t first = first_row(plate_size - 2, rank, part->size);
        size_t rows = first_row(plate_size - 2, rank + 1, part->size) - first;
        CHECK(gpurun_recv(plate + first * plate_size, rows * plate_size, GPURUN_FLOAT, rank, kTagRows,
                          GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    }
    return plate;
}

// As many steps, by one thread.
static float *solve_serially(size_t size, int steps) {
    float *now = cold_plate(size, size);
    float *next = cold_plate(size, size);
    for (int step = 0; step < steps; step++) {
        for (size_t row = 1; row + 1 < size; row++)
            for (size_t cell = row * size + 1; cell + 1 < (row + 1) * size; cell++)
                next[cell] = 0.25f * ((now[cell - 1] + now[cell + 1]) + (now[cell - size] + now[cell + size]));
        float *stepped = next;
        next = now;
        now = stepped;
    }
    free(next);
    return now;
}

static void compare(const float *plate, const float *serial, size_t cells) {
    for (size_t cell = 0; cell < cells; cell++)
        EXPECT(fabsf(plate[cell] - serial[cell]) <= 1e-5f, "cell %zu is at %g degrees, %g in the serial solution", cell,
               plate[cell], serial[cell]);
}

int main(int argc, char **argv) {
    struct options options = read_options(argc, argv);
    struct part part;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &part.rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &part.size));
    EXPECT(options.size >= (size_t)part.size + 2, "a plate of %zu rows is too small for %d ranks", options.size,
           part.size);

    create_part(&part, options.size);
    int steps = solve(&part, CHOOSE_KERNELS(heat_kernels), options.most_steps);
    float *plate = gather(&part, options.size);
    if (plate != NULL) {
        float *serial = solve_serially(options.size, steps);
        compare(plate, serial, options.size * options.size);
        printf("settled after %d steps on %d ranks, as the serial solution\n", steps, part.size);
        if (options.output != NULL)
            write_picture(options.output, plate, options.size, options.size, kHot);
        free(serial);
        free(plate);
    }
    destroy_part(&part);
    CHECK(gpurun_finalize());
    return 0;
}
