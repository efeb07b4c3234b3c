// A ping-pong: an even rank serves a ball, the odd one after it returns what it got, and the even one catches it.
#ifndef EXAMPLES_PING_PONG_H
#define EXAMPLES_PING_PONG_H

#include "check.h"

#include <stdlib.h>

struct ball {
    void *served, *caught; // device memory
    size_t bytes;
};

enum { kBallTag = 0 };

static inline struct ball create_ball(size_t bytes) {
    struct ball ball = {.bytes = bytes};
    CHECK(gpurun_malloc(&ball.served, bytes));
    CHECK(gpurun_malloc(&ball.caught, bytes));
    return ball;
}

static inline void destroy_ball(const struct ball *ball) {
    CHECK(gpurun_free(ball->caught));
    CHECK(gpurun_free(ball->served));
}

static inline void play(int rank, const struct ball *ball, int rounds, gpurun_stream stream) {
    int other = rank ^ 1;
    for (int round = 0; round < rounds; round++) {
        if (rank < other)
            CHECK(gpurun_send(ball->served, ball->bytes, GPURUN_BYTE, other, kBallTag, GPURUN_COMM_WORLD, stream));
        CHECK(gpurun_recv(ball->caught, ball->bytes, GPURUN_BYTE, other, kBallTag, GPURUN_COMM_WORLD, stream, NULL));
        if (rank > other)
            CHECK(gpurun_send(ball->caught, ball->bytes, GPURUN_BYTE, other, kBallTag, GPURUN_COMM_WORLD, stream));
    }
}

static inline unsigned char byte_of_ball(size_t index, size_t seed) { return (unsigned char)(index * 7 + seed); }

// Both in the host's order: REQUIRES that nothing is under way.
static inline void paint(const struct ball *ball, size_t seed) {
    unsigned char *bytes = malloc(ball->bytes);
    EXPECT(bytes != NULL, "no memory");
    for (size_t i = 0; i < ball->bytes; i++)
        bytes[i] = byte_of_ball(i, seed);
    CHECK(gpurun_memcpy(ball->served, bytes, ball->bytes, GPURUN_HOST));
    free(bytes);
}

static inline void look_at_caught(const struct ball *ball, size_t seed) {
    unsigned char *bytes = calloc(1, ball->bytes);
    EXPECT(bytes != NULL, "no memory");
    CHECK(gpurun_memcpy(bytes, ball->caught, ball->bytes, GPURUN_HOST));
    for (size_t i = 0; i < ball->bytes; i++)
        EXPECT(bytes[i] == byte_of_ball(i, seed), "byte %zu of %zu", i, ball->bytes);
    free(bytes);
}

#endif
