// overlap: halos are exchanged while the inside is computed, and a timeline shows it.
//
//     gpurun -n 4 ./overlap [--size N] [--steps COUNT] [--output TRACE.json]
//
// The plate is heat's, with other temperatures at first. A step needs the neighbours' rows for its outermost rows
// only, the rim. So each rank has two streams: one computes the inside while messages that were started in the other
// bring the halos; an event makes the rim wait for these, too. No host waits for a device before the last step is
// enqueued.
//
//     compute   inside ............................ rim   inside ...
//     halos     irecv, isend, waitall                     irecv, ...
//
// Both streams record the device's time between their pieces. The last steps of rank 0 are printed; the trace has all
// steps of all ranks. The result must be that of one thread. (Emulated devices compute and copy on the same processors,
// so pieces overlap there only if there is an idle core for each stream.)
#include "kernels/choose.h"
#include "kernels/heat_kernels.h"
#include "kernels/stamp_kernels.h"
#include "plate.h"
#include "timeline.h"

// While a kernel fills a GPU, no other kernel begins before its last blocks have begun, not even one that moves a
// message. So the inside is computed in bands, and messages move between them.
enum { kBands = 8, kShown = 3 };

struct solver {
    struct part part; // its stream computes
    gpurun_stream halos;
    gpurun_event begun, exchanged;
    const struct heat_kernels *heat;
    const struct stamp_kernels *clock;
    struct step_times *times; // device memory
};

// No two rows are alike, so a halo that comes too late, or from elsewhere, changes the result.
static float *speckled_plate(size_t size) {
    float *plate = make_plate(size);
    uint32_t speckle = 1;
    for (size_t cell = 0; cell < size * size; cell++) {
        speckle = speckle * 1664525u + 1013904223u;
        plate[cell] = (float)(speckle >> 25);
    }
    return plate;
}

static void create_solver(struct solver *solver, const float *plate, size_t size, int steps) {
    void *times;
    create_part(&solver->part, plate, size);
    CHECK(gpurun_stream_create(&solver->halos));
    CHECK(gpurun_event_create(&solver->begun));
    CHECK(gpurun_event_create(&solver->exchanged));
    CHECK(gpurun_malloc(&times, (size_t)steps * sizeof(struct step_times)));
    solver->times = times;
    solver->heat = CHOOSE_KERNELS(heat_kernels);
    solver->clock = CHOOSE_KERNELS(stamp_kernels);
}

static void destroy_solver(struct solver *solver) {
    CHECK(gpurun_free(solver->times));
    CHECK(gpurun_event_destroy(solver->exchanged));
    CHECK(gpurun_event_destroy(solver->begun));
    CHECK(gpurun_stream_destroy(solver->halos));
    destroy_part(&solver->part);
}

static void compute_rows(const struct solver *solver, size_t first, size_t end) {
    const struct part *part = &solver->part;
    size_t above = (first - 1) * part->columns;
    if (first < end)
        solver->heat->step(part->stream, part->next + above, part->now + above, end - first + 2, part->columns,
                           part->change);
}

static void compute_inside(const struct solver *solver, struct interval *taken) {
    size_t inside = solver->part.rows > 2 ? solver->part.rows - 2 : 0;
    solver->clock->stamp(solver->part.stream, &taken->begin);
    CHECK(gpurun_event_record(solver->begun, solver->part.stream)); // so the last step's rim is there
    for (size_t band = 0; band < kBands; band++)
        compute_rows(solver, 2 + inside * band / kBands, 2 + inside * (band + 1) / kBands);
    solver->clock->stamp(solver->part.stream, &taken->end);
}

static void exchange_halos(const struct solver *solver, struct interval *taken) {
    const struct part *part = &solver->part;
    size_t cells = part->columns, last = part->rows;
    gpurun_stream halos = solver->halos;
    gpurun_comm line = part->line;
    gpurun_request requests[4];
    CHECK(gpurun_stream_wait_event(halos, solver->begun));
    solver->clock->stamp(halos, &taken->begin);
    CHECK(gpurun_irecv(row_of(part, 0), cells, GPURUN_FLOAT, part->above, kTagDown, line, halos, &requests[0]));
    CHECK(gpurun_irecv(row_of(part, last + 1), cells, GPURUN_FLOAT, part->below, kTagUp, line, halos, &requests[1]));
    CHECK(gpurun_isend(row_of(part, 1), cells, GPURUN_FLOAT, part->above, kTagUp, line, halos, &requests[2]));
    CHECK(gpurun_isend(row_of(part, last), cells, GPURUN_FLOAT, part->below, kTagDown, line, halos, &requests[3]));
    CHECK(gpurun_waitall(4, requests, halos, NULL)); // what follows in the stream comes after the messages
    solver->clock->stamp(halos, &taken->end);
    CHECK(gpurun_event_record(solver->exchanged, halos));
}

static void compute_rim(const struct solver *solver, struct interval *taken) {
    size_t last = solver->part.rows;
    CHECK(gpurun_stream_wait_event(solver->part.stream, solver->exchanged));
    solver->clock->stamp(solver->part.stream, &taken->begin);
    compute_rows(solver, 1, 2);
    compute_rows(solver, last > 1 ? last : 2, last + 1);
    solver->clock->stamp(solver->part.stream, &taken->end);
}

static void step(struct solver *solver, struct step_times *times) {
    compute_inside(solver, &times->of[kInside]);
    exchange_halos(solver, &times->of[kHalos]);
    compute_rim(solver, &times->of[kRim]);
    take_step(&solver->part);
}

// The order that streams and events demand, at any speed.
static void check_order(const struct step_times *times, int steps) {
    for (int i = 0; i < steps; i++) {
        const struct interval *of = times[i].of;
        EXPECT(of[kRim].begin >= of[kHalos].end && of[kRim].begin >= of[kInside].end,
               "step %d: the rim was begun before its halos had come, or the inside was done", i + 1);
        EXPECT(i == 0 || of[kHalos].begin >= times[i - 1].of[kRim].end,
               "step %d: halos were sent before the rim was there", i + 1);
    }
}

// The first step also sets up what later ones use.
static void report(const struct step_times *times, int steps, int ranks) {
    int shown = steps < kShown ? steps : kShown;
    const struct step_times *last = &times[steps - shown];
    double halos_us = 0, hidden_us = 0;
    for (int i = 1; i < steps; i++) {
        halos_us += us_between(times[i].of[kHalos].begin, times[i].of[kHalos].end);
        hidden_us += (double)common_ns(times[i].of[kHalos], times[i].of[kInside]) / 1e3;
    }
    printf("%d steps on %d ranks, as the serial solution; the last %d on rank 0, %.1f us:\n", steps, ranks, shown,
           us_between(first_of(last), last[shown - 1].of[kRim].end));
    print_timeline(last, shown);
    if (ranks > 1)
        printf("an exchange took %.1f us, and for %.0f %% of that the inside was computed\n", halos_us / (steps - 1),
               100 * hidden_us / halos_us);
    if (ranks > 1 && on_emulated_device())
        printf("(emulated devices compute and copy on the same processors, so the two overlap only where cores are "
               "idle)\n");
}

// All ranks' times in rank 0's memory, by rank; a rank's own in the others'.
static struct step_times *gather_times(const struct solver *solver, int steps) {
    size_t words = (size_t)steps * sizeof(struct step_times) / sizeof(uint64_t);
    const struct part *part = &solver->part;
    struct step_times *all = calloc((size_t)(steps * part->size), sizeof *all);
    EXPECT(all != NULL, "no memory");
    CHECK(gpurun_memcpy(all, solver->times, (size_t)steps * sizeof *all, GPURUN_HOST));
    CHECK(gpurun_gather(part->rank == 0 ? GPURUN_IN_PLACE : all, words, GPURUN_UINT64, all, words, GPURUN_UINT64, 0,
                        GPURUN_COMM_WORLD, GPURUN_HOST));
    return all;
}

int main(int argc, char **argv) {
    struct options options = {.size = 0, .steps = 10};
    read_options(&options, argc, argv);
    struct solver solver;
    struct part *part = &solver.part;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &part->rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &part->size));
    // As large as the device needs, so that the inside takes longer than the halos.
    size_t size = options.size != 0 ? options.size : on_emulated_device() ? 1024 : 8192;
    EXPECT(size >= (size_t)part->size + 2, "a plate of %zu rows is too small for %d ranks", size, part->size);
    EXPECT(options.steps >= 2, "--steps: at least 2");

    float *plate = speckled_plate(size);
    create_solver(&solver, plate, size, options.steps);
    for (int i = 0; i < options.steps; i++)
        step(&solver, &solver.times[i]);
    gather(part, plate);

    struct step_times *times = gather_times(&solver, options.steps);
    check_order(times, options.steps);
    if (part->rank == 0) {
        compare_with_serial(plate, speckled_plate(size), size, options.steps);
        report(times, options.steps, part->size);
        if (options.output != NULL)
            write_trace(options.output, times, options.steps, part->size);
    }
    free(times);
    free(plate);
    destroy_solver(&solver);
    CHECK(gpurun_finalize());
    return 0;
}
