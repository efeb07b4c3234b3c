/* lost_lender WHEN: rank 0 maps memory of rank 1, which then dies. Rank 0 unmaps it in its next calls: once it has
   given it back, "before" or "after" that, or, if a "message" came out of it, at once. Until then it can be read. */
#define _DEFAULT_SOURCE
#include "support/mappings.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kTag = 1, kRounds = 1000, kRoundUs = 10000 };
#define BYTES ((size_t)64 << 20)

static void die_after_use(const char* when, gpurun_stream stream) {
    void* memory;
    gpurun_request request;
    MUST(gpurun_malloc(&memory, BYTES));
    MUST(gpurun_memset(memory, 7, BYTES, GPURUN_HOST));
    if (strcmp(when, "message") == 0) {
        MUST(gpurun_send(memory, BYTES, GPURUN_BYTE, 0, kTag, GPURUN_COMM_WORLD, GPURUN_HOST));
    } else {
        MUST(gpurun_lend(memory, BYTES, GPURUN_LOAN_READ_ONLY, 0, kTag, GPURUN_COMM_WORLD, stream, &request));
        if (strcmp(when, "after") == 0)
            MUST(gpurun_wait(&request, GPURUN_HOST, NULL));
        else
            MUST(gpurun_recv(NULL, 0, GPURUN_BYTE, 0, kTag, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    }
    MUST(gpurun_stream_synchronize(stream)); /* what was lent was ready */
    raise(SIGKILL);
}

static void await_death(void) {
    char byte;
    require(gpurun_recv(&byte, 1, GPURUN_BYTE, 1, kTag + 1, GPURUN_COMM_WORLD, GPURUN_HOST, NULL) ==
                GPURUN_ERR_PEER_LOST,
            "rank 1 dies");
}

/* That moves messages. */
static void make_call(void) {
    int found;
    MUST(gpurun_iprobe(0, kTag, GPURUN_COMM_WORLD, &found, NULL));
}

static void borrow(int gives_back_first, gpurun_stream stream) {
    gpurun_loan loan;
    void* memory;
    unsigned char byte = 0;
    MUST(gpurun_borrow(1, kTag, GPURUN_COMM_WORLD, stream, &loan, NULL));
    require(mappings_of(BYTES) == 1, "what is borrowed is mapped");
    if (gives_back_first) {
        MUST(gpurun_give_back(&loan, stream));
        await_death();
        return;
    }
    MUST(gpurun_send(NULL, 0, GPURUN_BYTE, 1, kTag, GPURUN_COMM_WORLD, GPURUN_HOST));
    await_death();
    for (int i = 0; i < 20; i++) { /* calls */
        make_call();
        usleep(kRoundUs);
    }
    require(mappings_of(BYTES) == 1, "what is borrowed stays mapped");
    MUST(gpurun_loan_buffer(loan, &memory, NULL, NULL));
    MUST(gpurun_memcpy(&byte, (char*)memory + BYTES - 1, 1, stream));
    require(gpurun_give_back(&loan, stream) == GPURUN_ERR_PEER_LOST, "the loan's lender is known to be dead");
    MUST(gpurun_stream_synchronize(stream));
    require(byte == 7, "what was borrowed can be read until it is given back");
}

/* Into memory of its own, of another size. */
static void receive(void) {
    void* memory;
    MUST(gpurun_malloc(&memory, 2 * BYTES));
    MUST(gpurun_recv(memory, BYTES, GPURUN_BYTE, 1, kTag, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    await_death();
}

int main(int argc, char** argv) {
    int rank;
    gpurun_stream stream;
    if (argc != 2)
        return 2;
    MUST(gpurun_init());
    MUST(gpurun_errors_set(GPURUN_ERRORS_RETURN, NULL));
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_stream_create(&stream));
    if (rank == 1)
        die_after_use(argv[1], stream);
    if (strcmp(argv[1], "message") == 0)
        receive();
    else
        borrow(strcmp(argv[1], "after") == 0, stream);
    for (int i = 0; i < kRounds && mappings_of(BYTES) != 0; i++) {
        make_call();
        usleep(kRoundUs);
    }
    require(mappings_of(BYTES) == 0, "the memory of a dead rank is unmapped");
    printf("rank 0: survived\n");
    (void)gpurun_finalize(); /* with a rank that is lost */
    return 0;
}
