// ring: a token in device memory travels once round all ranks, and each writes its number into it.
//
//     gpurun -n 4 ./ring
//
// Everything is ordered by one stream: the copy that writes into the token waits for the token to arrive, and the
// token leaves after the copy, without a single synchronization on the way.
#include "check.h"

#include <stdlib.h>

int main(void) {
    int rank, size;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));

    gpurun_stream stream;
    CHECK(gpurun_stream_create(&stream));
    size_t bytes = (size_t)size * sizeof(int);
    void *token; // one int for each rank
    CHECK(gpurun_malloc(&token, bytes));
    CHECK(gpurun_memset(token, 0xff, bytes, stream));

    int next = (rank + 1) % size;
    int previous = (rank + size - 1) % size;
    const int tag = 0;

    if (rank != 0)
        CHECK(gpurun_recv(token, (size_t)size, GPURUN_INT32, previous, tag, GPURUN_COMM_WORLD, stream, NULL));
    CHECK(gpurun_memcpy((int *)token + rank, &rank, sizeof(int), stream));
    CHECK(gpurun_send(token, (size_t)size, GPURUN_INT32, next, tag, GPURUN_COMM_WORLD, stream));
    if (rank == 0) {
        CHECK(gpurun_recv(token, (size_t)size, GPURUN_INT32, previous, tag, GPURUN_COMM_WORLD, stream, NULL));

        int *seen = malloc(bytes);
        EXPECT(seen != NULL, "no memory");
        CHECK(gpurun_memcpy(seen, token, bytes, stream));
        CHECK(gpurun_stream_synchronize(stream));
        for (int i = 0; i < size; i++)
            EXPECT(seen[i] == i, "rank %d wrote %d into the token", i, seen[i]);
        free(seen);
        printf("the token has been at all %d ranks\n", size);
    }

    CHECK(gpurun_stream_destroy(stream));
    CHECK(gpurun_free(token));
    CHECK(gpurun_finalize());
    return 0;
}
