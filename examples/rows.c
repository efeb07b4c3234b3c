// rows: ranks form a square grid and multiply two matrices, of which each has a block. In step k the ranks of column k
// give their block of A to their rows, and the ranks of row k give their block of B to their columns. Rows and columns
// are communicators, so each broadcasts among themselves. Ranks that do not fit into the grid have nothing to do.
//
//     gpurun -n 4 ./rows [SIZE-OF-A-BLOCK]
#include "check.h"

#include <stdlib.h>

static int grid_size(int ranks) {
    int side = 1;
    while ((side + 1) * (side + 1) <= ranks)
        side++;
    return side;
}

// Of the whole matrices, at a row and a column.
static double a_at(int i, int j) { return i + 2 * j; }
static double b_at(int i, int j) { return i == j ? 3 : 0; } // so the product is 3 A

static void multiply(int n, const double *a, const double *b, double *product) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                product[i * n + j] += a[i * n + k] * b[k * n + j];
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 32;
    int rank, size;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    int side = grid_size(size), row = rank / side, column = rank % side;
    int in_grid = rank < side * side;

    gpurun_comm my_row, my_column; // a rank's number in its row is its column, and the other way round
    CHECK(gpurun_comm_split(GPURUN_COMM_WORLD, in_grid ? row : GPURUN_UNDEFINED, column, &my_row));
    CHECK(gpurun_comm_split(GPURUN_COMM_WORLD, in_grid ? column : GPURUN_UNDEFINED, row, &my_column));
    if (in_grid) {
        CHECK(gpurun_comm_set_name(my_row, "row"));
        CHECK(gpurun_comm_set_name(my_column, "column"));
        size_t count = (size_t)n * (size_t)n;
        double *a = malloc(count * sizeof(double)), *b = malloc(count * sizeof(double));
        double *product = calloc(count, sizeof(double));
        EXPECT(count == 0 || (a != NULL && b != NULL && product != NULL), "no memory for blocks of %d", n);
        for (int k = 0; k < side; k++) {
            for (size_t i = 0; i < count; i++) {
                int y = (int)i / n, x = (int)i % n;
                a[i] = column == k ? a_at(row * n + y, column * n + x) : 0;
                b[i] = row == k ? b_at(row * n + y, column * n + x) : 0;
            }
            CHECK(gpurun_bcast(a, count, GPURUN_DOUBLE, k, my_row, GPURUN_HOST));
            CHECK(gpurun_bcast(b, count, GPURUN_DOUBLE, k, my_column, GPURUN_HOST));
            multiply(n, a, b, product);
        }
        for (size_t i = 0; i < count; i++) {
            int y = row * n + (int)i / n, x = column * n + (int)i % n;
            EXPECT(product[i] == 3 * a_at(y, x), "the product at %d, %d is %g", y, x, product[i]);
        }
        free(a);
        free(b);
        free(product);
        CHECK(gpurun_comm_free(&my_row));
        CHECK(gpurun_comm_free(&my_column));
    }
    if (rank == 0)
        printf("%d ranks have multiplied matrices of %d by %d\n", side * side, side * n, side * n);
    CHECK(gpurun_finalize());
    return 0;
}
