// When a rank's device did what, as text and as a trace that viewers open (chrome://tracing, ui.perfetto.dev).
#ifndef EXAMPLES_TIMELINE_H
#define EXAMPLES_TIMELINE_H

#include "check.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

// The pieces of a step, each in a stream: what a trace calls a thread.
enum { kInside, kHalos, kRim, kPieces };
static const struct {
    const char *name, *stream;
    int thread;
    char mark;
} kPiece[kPieces] = {{"inside", "compute", 0, '#'}, {"halos", "halos", 1, '='}, {"rim", "compute", 0, '+'}};

struct interval {
    uint64_t begin, end; // nanoseconds of the device's clock
};

struct step_times {
    struct interval of[kPieces];
};

static inline double us_between(uint64_t begin, uint64_t end) { return ((double)end - (double)begin) / 1e3; }

static inline uint64_t first_of(const struct step_times *step) {
    uint64_t first = step->of[0].begin;
    for (int piece = 1; piece < kPieces; piece++)
        first = step->of[piece].begin < first ? step->of[piece].begin : first;
    return first;
}

// The time in which both went on.
static inline uint64_t common_ns(struct interval a, struct interval b) {
    uint64_t begin = a.begin > b.begin ? a.begin : b.begin;
    uint64_t end = a.end < b.end ? a.end : b.end;
    return begin < end ? end - begin : 0;
}

// A line for each piece; `steps` end with the rim of the last one.
static inline void print_timeline(const struct step_times *steps, int count) {
    enum { kWidth = 96 };
    uint64_t origin = first_of(&steps[0]);
    uint64_t length = steps[count - 1].of[kRim].end - origin + 1;
    for (int piece = 0; piece < kPieces; piece++) {
        char line[kWidth + 1];
        memset(line, ' ', kWidth);
        line[kWidth] = '\0';
        for (int step = 0; step < count; step++) {
            const struct interval *drawn = &steps[step].of[piece];
            for (uint64_t at = (drawn->begin - origin) * kWidth / length; at <= (drawn->end - origin) * kWidth / length;
                 at++)
                line[at] = kPiece[piece].mark;
        }
        printf("%-6s |%s|\n", kPiece[piece].name, line);
    }
}

// `count` steps of each rank. Clocks of different devices differ, so each rank begins at 0.
static inline void write_trace(const char *path, const struct step_times *steps, int count, int ranks) {
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL, "cannot write %s", path);
    fprintf(file, "{\"traceEvents\": [");
    for (int rank = 0; rank < ranks; rank++) {
        uint64_t origin = first_of(&steps[(size_t)rank * (size_t)count]);
        fprintf(file, "%s\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": \"rank %d\"}}",
                rank > 0 ? "," : "", rank, rank);
        for (int piece = 0; piece < kRim; piece++)
            fprintf(file,
                    ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, "
                    "\"args\": {\"name\": \"%s\"}}",
                    rank, kPiece[piece].thread, kPiece[piece].stream);
        for (int i = 0; i < count * kPieces; i++) {
            int step = i / kPieces, piece = i % kPieces;
            const struct interval *taken = &steps[rank * count + step].of[piece];
            fprintf(file,
                    ",\n{\"ph\": \"X\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, "
                    "\"args\": {\"step\": %d}}",
                    kPiece[piece].name, rank, kPiece[piece].thread, us_between(origin, taken->begin),
                    us_between(taken->begin, taken->end), step + 1);
        }
    }
    fprintf(file, "\n]}\n");
    EXPECT(fclose(file) == 0, "cannot write %s", path);
}

#endif
