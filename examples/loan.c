// loan: a buffer is passed from rank to rank and back, in place. Nobody copies it, and nobody waits for a device.
//
//     gpurun -n 2 ./loan [ROUNDS]
//
// Even ranks lend a buffer to the odd rank after them. The lender fills it in its stream and lends it; the borrower's
// stream writes over it where it lies and gives it back; the lender's stream goes on with what the borrower wrote. The
// hosts run ahead of their devices all the time. In the end the lender looks at what has come back in each round.
#include "check.h"

#include <stdlib.h>

enum { kBytes = 1 << 20, kTag = 0 };

static void lend(int borrower, int rounds, gpurun_stream stream) {
    void *buffer;
    unsigned char *returned = malloc((size_t)rounds);
    EXPECT(returned != NULL, "no memory for %d rounds", rounds);
    CHECK(gpurun_malloc(&buffer, kBytes));
    for (int round = 0; round < rounds; round++) {
        gpurun_request loan;
        CHECK(gpurun_memset(buffer, 0, kBytes, stream));
        CHECK(gpurun_lend(buffer, kBytes, GPURUN_LOAN_EXCLUSIVE, borrower, kTag, GPURUN_COMM_WORLD, stream, &loan));
        CHECK(gpurun_wait(&loan, stream, NULL)); // waits for the borrower's call, not for its device
        CHECK(gpurun_memcpy(&returned[round], (char *)buffer + round * 997 % kBytes, 1, stream));
    }
    CHECK(gpurun_stream_synchronize(stream));
    for (int round = 0; round < rounds; round++)
        EXPECT(returned[round] == round % 255 + 1, "round %d came back with %d", round, returned[round]);
    printf("%d loans of %d bytes have come back from rank %d\n", rounds, kBytes, borrower);
    CHECK(gpurun_free(buffer));
    free(returned);
}

static void borrow(int lender, int rounds, gpurun_stream stream) {
    for (int round = 0; round < rounds; round++) {
        gpurun_loan loan;
        void *buffer;
        size_t bytes;
        CHECK(gpurun_borrow(lender, kTag, GPURUN_COMM_WORLD, stream, &loan, NULL));
        CHECK(gpurun_loan_buffer(loan, &buffer, &bytes, NULL));
        CHECK(gpurun_memset(buffer, round % 255 + 1, bytes, stream)); // the work
        CHECK(gpurun_give_back(&loan, stream));
    }
    CHECK(gpurun_stream_synchronize(stream));
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    int rank, size;
    gpurun_stream stream;
    CHECK(gpurun_init());
    CHECK(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    CHECK(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    CHECK(gpurun_stream_create(&stream));
    if (rank % 2 == 1)
        borrow(rank - 1, rounds, stream);
    else if (rank + 1 < size)
        lend(rank + 1, rounds, stream);
    CHECK(gpurun_stream_destroy(stream));
    CHECK(gpurun_finalize());
    return 0;
}
