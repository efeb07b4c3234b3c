// A child that a rank forks, and that then goes through the rank's own code: its calls are refused, and the rank's
// messages and its end are not disturbed.
#define _POSIX_C_SOURCE 200809L // fork
#include "support/must.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect(gpurun_status expected, gpurun_status got, const char* what) {
    if (got == expected && strstr(gpurun_error_detail(), "fork") != NULL)
        return;
    fprintf(stderr, "in the child, %s gave %s: %s\n", what, gpurun_status_string(got), gpurun_error_detail());
    _exit(1);
}

static void be_child(void) {
    int number = 41;
    gpurun_request request = GPURUN_REQUEST_NULL;
    expect(GPURUN_ERR_FINALIZED, gpurun_comm_rank(GPURUN_COMM_WORLD, &number), "gpurun_comm_rank");
    expect(GPURUN_ERR_FINALIZED, gpurun_send(&number, 1, GPURUN_INT32, 1, 0, GPURUN_COMM_WORLD, GPURUN_HOST),
           "gpurun_send");
    expect(GPURUN_ERR_FINALIZED, gpurun_irecv(&number, 1, GPURUN_INT32, 0, 0, GPURUN_COMM_WORLD, GPURUN_HOST, &request),
           "gpurun_irecv");
    expect(GPURUN_ERR_FINALIZED, gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST), "gpurun_barrier");
    expect(GPURUN_ERR_FINALIZED, gpurun_finalize(), "gpurun_finalize");
    expect(GPURUN_ERR_FINALIZED, gpurun_init(), "gpurun_init");
    _exit(gpurun_initialized() == 1 && gpurun_finalized() == 1 && number == 41 ? 0 : 2);
}

static void fork_and_wait(void) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0)
        be_child();
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "the child ended with %d\n", status);
        gpurun_abort(1);
    }
}

int main(void) {
    int rank, number = 0;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    fork_and_wait();
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    if (rank == 0) {
        number = 7;
        MUST(gpurun_send(&number, 1, GPURUN_INT32, 1, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
    } else {
        MUST(gpurun_recv(&number, 1, GPURUN_INT32, 0, GPURUN_ANY_TAG, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    }
    if (number != 7 || gpurun_finalized() != 0) {
        fprintf(stderr, "the rank got %d\n", number);
        gpurun_abort(1);
    }
    fork_and_wait();
    MUST(gpurun_finalize());
    return 0;
}
