// Rank 0 lends, and waits for none of its loans; rank 1 borrows some, lends two of them on, and gives none back; rank 2
// borrows one of these, and gets a copy of memory of rank 0's host. All finalize: what was not borrowed is taken back,
// and what was borrowed is given back once its rank's device has come to rest, and what was lent on is back.
#include "support/must.h"

#include <stdio.h>
#include <stdlib.h>

enum { kLoans = 6, kBytes = 100000 };

int main(void) {
    int rank;
    gpurun_stream stream;
    void* memory;
    gpurun_request request;
    gpurun_loan loan;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc(&memory, kLoans * kBytes));
    for (int i = 0; rank == 0 && i < kLoans; i++)
        MUST(gpurun_lend((char*)memory + i * kBytes, kBytes, GPURUN_LOAN_EXCLUSIVE, 1, i, GPURUN_COMM_WORLD, stream,
                         &request));
    for (int i = 0; rank == 1 && i < kLoans / 2; i++) {
        void* lent;
        MUST(gpurun_borrow(0, 2 * i, GPURUN_COMM_WORLD, stream, &loan, NULL));
        MUST(gpurun_loan_buffer(loan, &lent, NULL, NULL));
        MUST(gpurun_memset(lent, i, kBytes, stream));
        if (i < 2)
            MUST(gpurun_lend(lent, kBytes, GPURUN_LOAN_EXCLUSIVE, 2, 2 * i, GPURUN_COMM_WORLD, stream, &request));
    }
    if (rank == 0) {
        static char pageable[kBytes];
        MUST(gpurun_lend(pageable, kBytes, GPURUN_LOAN_READ_OR_COPY, 2, 7, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
    }
    if (rank == 2) {
        MUST(gpurun_borrow(1, 0, GPURUN_COMM_WORLD, stream, &loan, NULL));
        MUST(gpurun_borrow(0, 7, GPURUN_COMM_WORLD, stream, &loan, NULL));
    }
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    MUST(gpurun_finalize());
    return 0;
}
