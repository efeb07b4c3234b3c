// left_loans: what is lent on while the ranks leave, and nobody gives anything back before.
//
// Ranks 0 and 1 lend on to each other what rank 2 has lent them, and that on to rank 3. Each can give back the one only
// after it has got the other. The requests of rank 0 are freed.
#include "support/must.h"

enum { kBytes = 1 << 16 };

static void lend(void* memory, int to, int tag, int forget) {
    gpurun_request request;
    MUST(gpurun_lend(memory, kBytes, GPURUN_LOAN_SHARED, to, tag, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
    if (forget)
        MUST(gpurun_request_free(&request));
}

static void* borrow(int from, int tag) {
    gpurun_loan loan;
    void* memory;
    MUST(gpurun_borrow(from, tag, GPURUN_COMM_WORLD, GPURUN_HOST, &loan, NULL));
    MUST(gpurun_loan_buffer(loan, &memory, NULL, NULL));
    return memory;
}

int main(void) {
    int rank;
    void* memory;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    if (rank == 2) {
        for (int to = 0; to < 2; to++) {
            MUST(gpurun_malloc(&memory, kBytes));
            lend(memory, to, 1, 0);
        }
    } else if (rank == 3) {
        borrow(0, 3);
        borrow(1, 3);
    } else {
        lend(borrow(2, 1), 1 - rank, 2, rank == 0);
        lend(borrow(1 - rank, 2), 3, 3, rank == 0);
    }
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    MUST(gpurun_finalize());
    return 0;
}
