// fence_kernels.h as host loops, for emulated devices. A call's arguments live until its loop has run.
#define _POSIX_C_SOURCE 200809L // nanosleep

#include "../check.h"
#include "fence_kernels.h"

#include <stdlib.h>
#include <time.h>

struct call {
    uint32_t *numbers;
    size_t count;
    uint32_t round, link;
    uint32_t *wrong;
};

static uint32_t link_of_chain(uint32_t number, size_t index, uint32_t round, uint32_t link) {
    return link == 0 ? round * 2654435761u + (uint32_t)index : number * 1664525u + 1013904223u;
}

static void run_produce(void *argument) {
    struct call *call = argument;
    struct timespec slow = {.tv_nsec = 20000};
    nanosleep(&slow, NULL);
    for (size_t i = 0; i < call->count; i++)
        call->numbers[i] = link_of_chain(call->numbers[i], i, call->round, call->link);
    free(call);
}

static void run_consume(void *argument) {
    struct call *call = argument;
    for (size_t i = 0; i < call->count; i++) {
        uint32_t expected = 0;
        for (uint32_t link = 0; link < call->link; link++)
            expected = link_of_chain(expected, i, call->round, link);
        *call->wrong += call->numbers[i] != expected;
    }
    free(call);
}

static void enqueue(gpurun_stream stream, void (*function)(void *), struct call arguments) {
    struct call *call = malloc(sizeof *call);
    EXPECT(call != NULL, "no memory");
    *call = arguments;
    CHECK(gpurun_launch_host(stream, function, call));
}

static void produce(gpurun_stream stream, uint32_t *numbers, size_t count, uint32_t round, uint32_t link) {
    enqueue(stream, run_produce, (struct call){numbers, count, round, link, NULL});
}

static void consume(gpurun_stream stream, const uint32_t *numbers, size_t count, uint32_t round, uint32_t links,
                    uint32_t *wrong) {
    enqueue(stream, run_consume, (struct call){(uint32_t *)numbers, count, round, links, wrong});
}

const struct fence_kernels host_fence_kernels = {produce, consume};
