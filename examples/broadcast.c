// broadcast: every rank in turn is the root and gives its numbers, in device memory, to all others.
//
//     gpurun -n 4 ./broadcast [COUNT]
#include "check.h"

#include <stdlib.h>

static double number_of(int root, size_t index) { return root * 1e6 + (double)index; }

int main(int argc, char **argv) {
    size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
    int rank, size;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));

    gpurun_stream stream;
    void *numbers;
    size_t bytes = count * sizeof(double);
    double *host = malloc(bytes);
    EXPECT(host != NULL || count == 0, "no memory for %zu numbers", count);
    CHECK(gpurun_stream_create(&stream));
    CHECK(gpurun_malloc(&numbers, bytes));

    for (int root = 0; root < size; root++) {
        if (rank == root) {
            for (size_t i = 0; i < count; i++)
                host[i] = number_of(root, i);
            CHECK(gpurun_memcpy(numbers, host, bytes, stream));
        }
        CHECK(gpurun_bcast(numbers, count, GPURUN_DOUBLE, root, GPURUN_COMM_WORLD, stream));

        CHECK(gpurun_memcpy(host, numbers, bytes, stream));
        CHECK(gpurun_stream_synchronize(stream));
        for (size_t i = 0; i < count; i++)
            EXPECT(host[i] == number_of(root, i), "number %zu of root %d is %g", i, root, host[i]);
    }
    if (rank == 0)
        printf("each of %d ranks has received %zu numbers from each\n", size, count);

    free(host);
    CHECK(gpurun_stream_destroy(stream));
    CHECK(gpurun_free(numbers));
    CHECK(gpurun_finalize());
    return 0;
}
