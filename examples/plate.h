// A plate whose rows are divided among the ranks: what heat.c and overlap.c solve by Jacobi's method, and the serial
// solution that both are compared with. A plate is as many rows as columns; its outermost cells never change.
#ifndef EXAMPLES_PLATE_H
#define EXAMPLES_PLATE_H

#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct options {
    size_t size;        // of the plate
    int steps;          // at most
    const char *output; // a file's name, or NULL
};

// Sets the options that the command line names.
static inline void read_options(struct options *options, int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--size") == 0)
            options->size = strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--steps") == 0)
            options->steps = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--output") == 0)
            options->output = argv[i + 1];
    }
}

enum { kTagUp = 1, kTagDown = 2 };

// The part of the plate that one rank has: rows first to first + rows - 1 of the inner ones, and a halo row on each
// side (at the plate's edges, the edge itself).
struct part {
    int rank, size;
    gpurun_comm line; // the ranks from the top of the plate to its bottom, a grid of one dimension
    int above, below; // neighbours there; GPURUN_PROC_NULL at the plate's edges, where messages do nothing
    size_t columns, first, rows;
    float *now, *next, *change; // device memory
    gpurun_stream stream;
};

// Row 0 is the halo above, rows + 1 the one below.
static inline float *row_of(const struct part *part, size_t row) { return part->now + row * part->columns; }

static inline size_t first_row(size_t inner_rows, int rank, int size) {
    return 1 + inner_rows * (size_t)rank / (size_t)size;
}

static inline float *make_plate(size_t size) {
    float *plate = calloc(size * size, sizeof *plate);
    EXPECT(plate != NULL, "no memory for %zu cells", size * size);
    return plate;
}

// This rank's part of `plate`, which is the same on all ranks.
static inline void create_part(struct part *part, const float *plate, size_t plate_size) {
    size_t inner = plate_size - 2;
    int is_ring = 0;
    CHECK(gpurun_cart_create(GPURUN_COMM_WORLD, 1, &part->size, &is_ring, 0, &part->line));
    CHECK(gpurun_cart_shift(part->line, 0, 1, &part->above, &part->below));
    part->columns = plate_size;
    part->first = first_row(inner, part->rank, part->size);
    part->rows = first_row(inner, part->rank + 1, part->size) - part->first;
    size_t bytes = (part->rows + 2) * part->columns * sizeof(float);
    void *memory[3];
    for (int i = 0; i < 3; i++)
        CHECK(gpurun_malloc(&memory[i], i < 2 ? bytes : sizeof(float)));
    part->now = memory[0];
    part->next = memory[1];
    part->change = memory[2];
    CHECK(gpurun_memcpy(part->now, plate + (part->first - 1) * part->columns, bytes, GPURUN_HOST));
    CHECK(gpurun_memcpy(part->next, part->now, bytes, GPURUN_HOST));
    CHECK(gpurun_memset(part->change, 0, sizeof(float), GPURUN_HOST));
    CHECK(gpurun_stream_create(&part->stream));
}

static inline void destroy_part(struct part *part) {
    CHECK(gpurun_stream_destroy(part->stream));
    CHECK(gpurun_free(part->change));
    CHECK(gpurun_free(part->next));
    CHECK(gpurun_free(part->now));
    CHECK(gpurun_comm_free(&part->line));
}

// What was computed is the field now.
static inline void take_step(struct part *part) {
    float *stepped = part->next;
    part->next = part->now;
    part->now = stepped;
}

// All inner rows into rank 0's `plate`, in the order of each rank's stream.
static inline void gather(const struct part *part, float *plate) {
    size_t *counts = calloc(2 * (size_t)part->size, sizeof *counts), *begins = counts + part->size;
    EXPECT(counts != NULL, "no memory");
    for (int rank = 0; rank < part->size; rank++) {
        size_t first = first_row(part->columns - 2, rank, part->size);
        counts[rank] = (first_row(part->columns - 2, rank + 1, part->size) - first) * part->columns;
        begins[rank] = first * part->columns;
    }
    CHECK(gpurun_gatherv(row_of(part, 1), part->rows * part->columns, GPURUN_FLOAT, plate, counts, begins, GPURUN_FLOAT,
                         0, GPURUN_COMM_WORLD, part->stream));
    CHECK(gpurun_stream_synchronize(part->stream));
    free(counts);
}

// Makes as many steps by one thread, from `now` on, and expects the same result.
static inline void compare_with_serial(const float *plate, float *now, size_t size, int steps) {
    float *next = make_plate(size);
    memcpy(next, now, size * size * sizeof *next);
    for (int step = 0; step < steps; step++) {
        for (size_t row = 1; row + 1 < size; row++)
            for (size_t cell = row * size + 1; cell + 1 < (row + 1) * size; cell++)
                next[cell] = 0.25f * ((now[cell - 1] + now[cell + 1]) + (now[cell - size] + now[cell + size]));
        float *stepped = next;
        next = now;
        now = stepped;
    }
    for (size_t cell = 0; cell < size * size; cell++)
        EXPECT(fabsf(plate[cell] - now[cell]) <= 1e-5f, "cell %zu is at %g degrees, %g in the serial solution", cell,
               plate[cell], now[cell]);
    free(next);
    free(now);
}

#endif
