// fence: messages are ordered with the GPU work around them, so nobody ever synchronizes.
//
//     gpurun -n 2 ./fence [--rounds N]
//
// Even ranks send to the odd rank after them. The sender enqueues a chain of slow kernels that produce the numbers,
// the send, and at once kernels that overwrite them. The receiver receives in one stream and checks every number with
// a kernel in another. The host of neither waits for a device until the last round is enqueued: if a message left too
// early or too late, or a kernel read too early, some number of some round would be wrong.
#include "kernels/choose.h"
#include "kernels/fence_kernels.h"

#include <stdlib.h>
#include <string.h>

// The messages of successive rounds: of every size class, so of every mechanism that moves device memory.
static const size_t kCounts[] = {2, 65536, 1000, 10000, 1, 8192, 262144, 8193};
enum { kCountCount = sizeof kCounts / sizeof kCounts[0], kMostNumbers = 262144, kLinks = 3, kTag = 0 };

static size_t count_of(uint32_t round) { return kCounts[round % kCountCount]; }

static void send_rounds(const struct fence_kernels *kernels, int dest, uint32_t rounds, uint32_t *numbers) {
    gpurun_stream stream;
    CHECK(gpurun_stream_create(&stream));
    for (uint32_t round = 0; round < rounds; round++) {
        size_t count = count_of(round);
        for (uint32_t link = 0; link < kLinks; link++)
            kernels->produce(stream, numbers, count, round, link);
        CHECK(gpurun_send(numbers, count, GPURUN_UINT32, dest, kTag, GPURUN_COMM_WORLD, stream));
        CHECK(gpurun_memset(numbers, 0xff, count * sizeof *numbers, stream));
    }
    CHECK(gpurun_stream_synchronize(stream));
    CHECK(gpurun_stream_destroy(stream));
}

static void receive_rounds(const struct fence_kernels *kernels, int source, uint32_t rounds, uint32_t *numbers) {
    gpurun_stream arrivals, consumer;
    gpurun_event arrived, consumed;
    void *wrong;
    CHECK(gpurun_stream_create(&arrivals));
    CHECK(gpurun_stream_create(&consumer));
    CHECK(gpurun_event_create(&arrived));
    CHECK(gpurun_event_create(&consumed));
    CHECK(gpurun_malloc(&wrong, sizeof(uint32_t)));
    CHECK(gpurun_memset(wrong, 0, sizeof(uint32_t), consumer));

    for (uint32_t round = 0; round < rounds; round++) {
        size_t count = count_of(round);
        CHECK(gpurun_recv(numbers, count, GPURUN_UINT32, source, kTag, GPURUN_COMM_WORLD, arrivals, NULL));
        CHECK(gpurun_event_record(arrived, arrivals));
        CHECK(gpurun_stream_wait_event(consumer, arrived));
        kernels->consume(consumer, numbers, count, round, kLinks, wrong);
        CHECK(gpurun_event_record(consumed, consumer)); // the next message may overwrite this one
        CHECK(gpurun_stream_wait_event(arrivals, consumed));
    }

    uint32_t wrong_numbers;
    CHECK(gpurun_memcpy(&wrong_numbers, wrong, sizeof wrong_numbers, consumer));
    CHECK(gpurun_stream_synchronize(consumer));
    EXPECT(wrong_numbers == 0, "%u numbers in %u rounds", wrong_numbers, rounds);
    printf("%u rounds from rank %d: every number is right\n", rounds, source);

    CHECK(gpurun_free(wrong));
    CHECK(gpurun_event_destroy(consumed));
    CHECK(gpurun_event_destroy(arrived));
    CHECK(gpurun_stream_destroy(consumer));
    CHECK(gpurun_stream_destroy(arrivals));
}

int main(int argc, char **argv) {
    uint32_t rounds = argc == 3 && strcmp(argv[1], "--rounds") == 0 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2000;
    int rank, size;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    EXPECT(size % 2 == 0, "needs an even number of ranks (gpurun -n 2)");

    const struct fence_kernels *kernels = CHOOSE_KERNELS(fence_kernels);
    void *numbers;
    CHECK(gpurun_malloc(&numbers, kMostNumbers * sizeof(uint32_t)));
    if (rank % 2 == 0)
        send_rounds(kernels, rank + 1, rounds, numbers);
    else
        receive_rounds(kernels, rank - 1, rounds, numbers);
    CHECK(gpurun_free(numbers));
    CHECK(gpurun_finalize());
    return 0;
}
