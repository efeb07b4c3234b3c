/* stopped_loans borrower|lender: rank 1 holds a loan of rank 0, or has lent to it, and is stopped (SIGSTOP). Ranks 0
   and 2 go on meanwhile, the loan stays as it is, and rank 1 goes on with it once it is continued. */
#define _POSIX_C_SOURCE 200809L
#include "support/must.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kLoan = 1, kPid = 2, kTalk = 3, kBytes = 100000, kFewest = 50 };

static int is_stopped(int pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE* const file = fopen(path, "r");
    require(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1, "the state of rank 1 can be read");
    fclose(file);
    return state == 'T';
}

static unsigned char first_byte(const void* memory) {
    unsigned char byte;
    MUST(gpurun_memcpy(&byte, memory, 1, GPURUN_HOST));
    return byte;
}

static void borrow(int source, gpurun_loan* loan, void** lent) {
    MUST(gpurun_borrow(source, kLoan, GPURUN_COMM_WORLD, GPURUN_HOST, loan, NULL));
    MUST(gpurun_loan_buffer(*loan, lent, NULL, NULL));
}

static void lend(void* memory, int dest, gpurun_request* request) {
    MUST(gpurun_lend(memory, kBytes, GPURUN_LOAN_EXCLUSIVE, dest, kLoan, GPURUN_COMM_WORLD, GPURUN_HOST, request));
}

/* Until rank 1 is stopped, and for some rounds more. */
static void talk(int pid) {
    int go_on = 1;
    for (int rounds = 0; go_on;) {
        rounds += is_stopped(pid) ? 1 : 0;
        go_on = rounds < kFewest;
        MUST(gpurun_send(&go_on, 1, GPURUN_INT32, 2, kTalk, GPURUN_COMM_WORLD, GPURUN_HOST));
        MUST(gpurun_recv(&go_on, 1, GPURUN_INT32, 2, kTalk, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    }
}

static void answer(void) {
    for (int go_on = 1; go_on;) {
        MUST(gpurun_recv(&go_on, 1, GPURUN_INT32, 0, kTalk, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
        MUST(gpurun_send(&go_on, 1, GPURUN_INT32, 0, kTalk, GPURUN_COMM_WORLD, GPURUN_HOST));
    }
}

static void be_stopped(int borrows, void* memory) {
    const int pid = getpid();
    gpurun_loan loan;
    gpurun_request request;
    void* lent;
    if (borrows) {
        borrow(0, &loan, &lent);
        MUST(gpurun_memset(lent, 5, kBytes, GPURUN_HOST));
    } else {
        MUST(gpurun_memset(memory, 5, kBytes, GPURUN_HOST));
        lend(memory, 0, &request);
    }
    MUST(gpurun_send(&pid, 1, GPURUN_INT32, 0, kPid, GPURUN_COMM_WORLD, GPURUN_HOST));
    require(kill(pid, SIGSTOP) == 0, "rank 1 is stopped");
    if (borrows) {
        MUST(gpurun_memset(lent, 6, kBytes, GPURUN_HOST));
        MUST(gpurun_give_back(&loan, GPURUN_HOST));
    } else {
        MUST(gpurun_wait(&request, GPURUN_HOST, NULL));
        require(first_byte(memory) == 6, "the lender has what the borrower wrote while it was stopped");
    }
}

static void go_on(int lends, void* memory) {
    int pid, done = 0;
    gpurun_loan loan;
    gpurun_request request;
    void* lent;
    if (lends)
        lend(memory, 1, &request);
    MUST(gpurun_recv(&pid, 1, GPURUN_INT32, 1, kPid, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    talk(pid);
    if (lends) {
        MUST(gpurun_test(&request, GPURUN_HOST, &done, NULL));
        require(!done, "a borrower that is stopped keeps the loan");
        require(gpurun_free(memory) == GPURUN_ERR_LOAN, "what a stopped rank has borrowed is not freed");
    } else {
        borrow(1, &loan, &lent);
        require(first_byte(lent) == 5, "what a stopped rank has lent is read");
        MUST(gpurun_memset(lent, 6, kBytes, GPURUN_HOST));
        MUST(gpurun_give_back(&loan, GPURUN_HOST));
    }
    require(is_stopped(pid), "rank 1 is still stopped");
    require(kill(pid, SIGCONT) == 0, "rank 1 is continued");
    if (lends) {
        MUST(gpurun_wait(&request, GPURUN_HOST, NULL));
        require(first_byte(memory) == 6, "the borrower has gone on");
    }
}

int main(int argc, char** argv) {
    int rank;
    void* memory;
    if (argc != 2)
        return 2;
    const int borrower = strcmp(argv[1], "borrower") == 0;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_malloc(&memory, kBytes));
    if (rank == 0)
        go_on(borrower, memory);
    else if (rank == 1)
        be_stopped(borrower, memory);
    else
        answer();
    MUST(gpurun_free(memory));
    MUST(gpurun_finalize());
    return 0;
}
