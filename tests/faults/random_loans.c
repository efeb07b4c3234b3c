/* random_loans SEED: ranks lend and borrow in turn, in an order, kinds and streams that follow from the seed, until one
   of them is killed. Then each survivor has its memory back, no other process has it mapped, it can be freed, and the
   rank has no memory of others mapped.

   All ranks make the same choices. So each knows what the others do, and what comes of a death is all that differs. */
#define _DEFAULT_SOURCE
#include "support/mappings.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kTag = 1, kBytes = 12 << 20, kMostRounds = 100000, kUnmapMs = 20000 };

static uint64_t state;

static unsigned choose(unsigned choices) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % choices;
}

/* Somebody has died, or has stopped for that. */
static int is_over(gpurun_status status, const char* call) {
    const int over = status == GPURUN_ERR_PEER_LOST || status == GPURUN_ERR_FINALIZED;
    if (!over && status != GPURUN_OK)
        fprintf(stderr, "%s: %s\n", call, gpurun_status_string(status));
    require(over || status == GPURUN_OK, "calls fail for a death alone");
    return over;
}

struct round {
    int lender, borrower;
    gpurun_loan_kind kind;
    gpurun_stream lends_in, borrows_in;
    int cancels;
};

static struct round next_round(int size, gpurun_stream stream) {
    static const gpurun_loan_kind kinds[] = {GPURUN_LOAN_EXCLUSIVE, GPURUN_LOAN_SHARED, GPURUN_LOAN_READ_ONLY,
                                             GPURUN_LOAN_READ_OR_COPY};
    struct round round;
    round.lender = (int)choose((unsigned)size);
    round.borrower = (round.lender + 1 + (int)choose((unsigned)size - 1)) % size;
    round.kind = kinds[choose(4)];
    round.lends_in = choose(2) ? stream : GPURUN_HOST;
    round.borrows_in = choose(2) ? stream : GPURUN_HOST;
    round.cancels = choose(20) == 0;
    return round;
}

/* True if it is over. `request` is open then, or 0. */
static int lend(const struct round* round, void* memory, gpurun_request* request) {
    if (is_over(gpurun_lend(memory, kBytes, round->kind, round->borrower, kTag, GPURUN_COMM_WORLD, round->lends_in,
                            request),
                "lend"))
        return 1;
    return is_over(gpurun_wait(request, round->lends_in, NULL), "wait");
}

static int borrow(const struct round* round) {
    gpurun_loan loan;
    gpurun_loan_kind kind;
    void* memory;
    int over;
    if (is_over(gpurun_borrow(round->lender, kTag, GPURUN_COMM_WORLD, round->borrows_in, &loan, NULL), "borrow"))
        return 1;
    MUST(gpurun_loan_buffer(loan, &memory, NULL, &kind));
    over = (kind == GPURUN_LOAN_EXCLUSIVE || kind == GPURUN_LOAN_SHARED) &&
           is_over(gpurun_memset(memory, 5, kBytes, round->borrows_in), "memset");
    return is_over(gpurun_give_back(&loan, round->borrows_in), "give back") || over;
}

int main(int argc, char** argv) {
    int rank, size, over = 0;
    gpurun_stream stream;
    gpurun_request request = {0};
    void* memory;
    unsigned char byte = 0;
    if (argc != 2)
        return 2;
    state = strtoull(argv[1], NULL, 0);
    MUST(gpurun_init());
    MUST(gpurun_errors_set(GPURUN_ERRORS_RETURN, NULL));
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc(&memory, kBytes));
    printf("rank %d: lends and borrows, pid %d\n", rank, (int)getpid());
    fflush(stdout);
    for (int i = 0; i < kMostRounds && !over; i++) {
        const struct round round = next_round(size, stream);
        if (round.lender == rank)
            over = lend(&round, memory, &request);
        else if (round.borrower == rank)
            over = borrow(&round);
    }
    (void)gpurun_stream_synchronize(stream); /* tells of the death once more, perhaps */
    MUST(gpurun_memset(memory, 9, kBytes, stream));
    MUST(gpurun_memcpy(&byte, memory, 1, stream));
    MUST(gpurun_stream_synchronize(stream));
    require(byte == 9, "a survivor's memory is its own");
    MUST(gpurun_unregister(memory, kUnmapMs));
    MUST(gpurun_free(memory));
    (void)gpurun_finalize();
    require(mappings_of(kBytes) == 0, "a survivor has nothing of others mapped");
    printf("rank %d: survived\n", rank);
    return 0;
}
