// transpose: a matrix whose rows are divided among the ranks becomes one whose columns are. Each rank gives every other
// one the block where its rows meet that one's columns: an all-to-all, in the order of a stream.
//
//     gpurun -n 4 ./transpose [ROWS-OF-A-RANK]
#include "check.h"

#include <stdlib.h>

// Of the whole matrix.
static float at(size_t row, size_t column) { return (float)(row * 1000 + column); }

int main(int argc, char **argv) {
    int rank, size;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    size_t rows = argc > 1 ? strtoul(argv[1], NULL, 10) : 50;
    size_t columns = rows * (size_t)size, block = rows * rows, bytes = rows * columns * sizeof(float);
    size_t first = rows * (size_t)rank; // of this rank's rows, and then of its columns

    gpurun_stream stream;
    float *blocks = malloc(bytes + 1), *matrix = malloc(bytes + 1);
    void *given, *got; // device memory: a block for each rank, and one of each
    EXPECT(blocks != NULL && matrix != NULL, "no memory for %zu bytes", bytes);
    CHECK(gpurun_stream_create(&stream));
    CHECK(gpurun_malloc(&given, bytes));
    CHECK(gpurun_malloc(&got, bytes));

    // The block for rank r, transposed: its rows are the columns that r will have.
    for (size_t r = 0; r < (size_t)size; r++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < rows; j++)
                blocks[r * block + j * rows + i] = at(first + i, r * rows + j);
    CHECK(gpurun_memcpy(given, blocks, bytes, stream));
    CHECK(gpurun_alltoall(given, block, GPURUN_FLOAT, got, block, GPURUN_FLOAT, GPURUN_COMM_WORLD, stream));
    CHECK(gpurun_memcpy(blocks, got, bytes, stream));
    CHECK(gpurun_stream_synchronize(stream));

    // Row j here is column first + j of the whole matrix. Rank r has sent the part of it that was in its rows.
    for (size_t r = 0; r < (size_t)size; r++)
        for (size_t j = 0; j < rows; j++)
            for (size_t i = 0; i < rows; i++)
                matrix[j * columns + r * rows + i] = blocks[r * block + j * rows + i];
    for (size_t j = 0; j < rows; j++)
        for (size_t i = 0; i < columns; i++)
            EXPECT(matrix[j * columns + i] == at(i, first + j), "row %zu, column %zu of the transpose is %g", first + j,
                   i, matrix[j * columns + i]);
    if (rank == 0)
        printf("%d ranks have transposed a matrix of %zu by %zu\n", size, columns, columns);

    CHECK(gpurun_free(got));
    CHECK(gpurun_free(given));
    CHECK(gpurun_stream_destroy(stream));
    free(matrix);
    free(blocks);
    CHECK(gpurun_finalize());
    return 0;
}
