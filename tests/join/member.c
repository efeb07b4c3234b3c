/* A rank that gpurun did not start: passes a number round, then does what it is told: "ring", "wait" (until the peer is
 * lost), "lend" (the same, after rank 0 has lent memory to rank 1), "away" (the same, but rank 1 borrows when rank 0
 * makes no call any more, until it is killed), "abort", or "init" (only tries to join; prints the
 * error). member [MODE [NAME RANK SIZE]] */
#define _DEFAULT_SOURCE
#include <gpurun/gpurun.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char* what) {
    printf("%s: %s\n", what, gpurun_error_detail());
    return 1;
}

/* Rank 0 lends 4096 bytes, which rank 1 borrows. The request is left to the end of the process. */
static int lend(int rank) {
    void* memory = NULL;
    gpurun_request request;
    gpurun_loan loan;
    const gpurun_loan_kind kind = GPURUN_LOAN_READ_ONLY;
    if (rank == 0 && (gpurun_malloc(&memory, 4096) != GPURUN_OK ||
                      gpurun_lend(memory, 4096, kind, 1, 9, GPURUN_COMM_WORLD, GPURUN_HOST, &request) != GPURUN_OK))
        return fail("lend");
    if (rank == 1 && gpurun_borrow(0, 9, GPURUN_COMM_WORLD, GPURUN_HOST, &loan, NULL) != GPURUN_OK)
        return fail("borrow");
    return 0;
}

int main(int argc, char** argv) {
    const char* const mode = argc > 1 ? argv[1] : "ring";
    const gpurun_status joined = argc > 4 ? gpurun_init_as(argv[2], atoi(argv[3]), atoi(argv[4])) : gpurun_init();
    if (joined != GPURUN_OK)
        return fail(gpurun_status_string(joined));
    int rank = 0, size = 0, number = 0;
    if (gpurun_comm_rank(GPURUN_COMM_WORLD, &rank) != GPURUN_OK ||
        gpurun_comm_size(GPURUN_COMM_WORLD, &size) != GPURUN_OK)
        return fail("rank");
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    if (gpurun_sendrecv(&rank, 1, GPURUN_INT32, next, 0, &number, 1, GPURUN_INT32, before, 0, GPURUN_COMM_WORLD,
                        GPURUN_HOST, NULL) != GPURUN_OK)
        return fail("sendrecv");
    printf("rank %d of %d got %d, pid %d\n", rank, size, number, (int)getpid());
    fflush(stdout);
    if (strcmp(mode, "abort") == 0 && rank == 0)
        gpurun_abort(3);
    const int away = strcmp(mode, "away") == 0;
    if (away && rank == 1)
        usleep(200000);
    if ((away || strcmp(mode, "lend") == 0) && lend(rank) != 0)
        return 1;
    if (away && rank == 0) {
        for (;;)
            pause();
    }
    if (strcmp(mode, "ring") != 0) {
        const gpurun_status lost =
            gpurun_recv(&number, 1, GPURUN_INT32, before, 1, GPURUN_COMM_WORLD, GPURUN_HOST, NULL);
        printf("%s\n", gpurun_status_string(lost));
        fflush(stdout);
        return lost == GPURUN_ERR_PEER_LOST ? 0 : 1;
    }
    return gpurun_finalize() == GPURUN_OK ? 0 : fail("finalize");
}
