// leftovers clean|careless|many: two ranks come to gpurun_finalize(). "clean" ones have left nothing, "careless" ones
// something of each kind, and "many" more kinds than are told of.
#include "support/must.h"

#include <stdlib.h>
#include <string.h>

enum { kLarge = 1000000, kMany = 40 };
static char memory[kLarge];

static void leave_of_each(int rank) {
    gpurun_comm halo, third, freed;
    gpurun_request request;
    gpurun_message message;
    gpurun_loan loan;
    MUST(gpurun_comm_dup(GPURUN_COMM_WORLD, &halo));
    MUST(gpurun_comm_set_name(halo, "halo"));
    MUST(gpurun_comm_dup(GPURUN_COMM_WORLD, &freed));
    MUST(gpurun_comm_split(GPURUN_COMM_WORLD, 0, -rank, &third)); // the other way round, without a name
    if (rank == 0) {
        void* lent;
        for (int i = 0; i < 3; i++)
            MUST(gpurun_send(memory, 8, GPURUN_BYTE, 1, 7, GPURUN_COMM_WORLD, GPURUN_HOST));
        MUST(gpurun_send(memory, 16, GPURUN_BYTE, 0, 5, third, GPURUN_HOST)); // to rank 1
        MUST(gpurun_send(memory, 8, GPURUN_BYTE, 1, 6, GPURUN_COMM_WORLD, GPURUN_HOST));
        MUST(gpurun_isend(memory, kLarge, GPURUN_BYTE, 1, 8, halo, GPURUN_HOST, &request));
        MUST(gpurun_isend(memory, kLarge, GPURUN_BYTE, 1, 8, freed, GPURUN_HOST, &request));
        MUST(gpurun_request_free(&request));
        MUST(gpurun_send_init(memory, 8, GPURUN_BYTE, 1, 9, halo, GPURUN_HOST, &request));
        MUST(gpurun_malloc(&lent, 64));
        MUST(gpurun_lend(lent, 64, GPURUN_LOAN_SHARED, 1, 3, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
        MUST(gpurun_lend(lent, 64, GPURUN_LOAN_SHARED, 1, 4, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
    } else {
        MUST(gpurun_irecv(memory, 8, GPURUN_BYTE, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, halo, GPURUN_HOST, &request));
        MUST(gpurun_irecv(memory, 8, GPURUN_BYTE, 0, 2, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
        MUST(gpurun_request_free(&request)); // nobody wants to know
        MUST(gpurun_borrow(0, 3, GPURUN_COMM_WORLD, GPURUN_HOST, &loan, NULL));
        MUST(gpurun_mprobe(0, 6, GPURUN_COMM_WORLD, &message, NULL));
    }
    MUST(gpurun_comm_free(&freed)); // what was sent in it is not told
    MUST(gpurun_ibarrier(GPURUN_COMM_WORLD, GPURUN_HOST, &request));
}

static void leave_nothing(int rank) {
    gpurun_request request;
    gpurun_comm halo;
    MUST(gpurun_comm_dup(GPURUN_COMM_WORLD, &halo));
    if (rank == 0) {
        MUST(gpurun_isend(memory, kLarge, GPURUN_BYTE, 1, 8, halo, GPURUN_HOST, &request));
        MUST(gpurun_wait(&request, GPURUN_HOST, NULL));
    } else {
        MUST(gpurun_recv(memory, kLarge, GPURUN_BYTE, 0, 8, halo, GPURUN_HOST, NULL));
    }
    MUST(gpurun_send_init(memory, 8, GPURUN_BYTE, 1 - rank, 9, halo, GPURUN_HOST, &request));
    MUST(gpurun_request_free(&request));
    MUST(gpurun_comm_free(&halo));
}

int main(int argc, char** argv) {
    int rank;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    if (argc > 1 && strcmp(argv[1], "clean") == 0)
        leave_nothing(rank);
    else if (argc > 1 && strcmp(argv[1], "careless") == 0)
        leave_of_each(rank);
    for (int i = 0; argc > 1 && strcmp(argv[1], "many") == 0 && rank == 0 && i < kMany; i++)
        MUST(gpurun_send(memory, 8, GPURUN_BYTE, 1, i, GPURUN_COMM_WORLD, GPURUN_HOST));
    MUST(gpurun_finalize());
    return 0;
}
