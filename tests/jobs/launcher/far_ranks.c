// far_ranks BEHAVIOUR: ranks of several nodes; each says what its last call returned. See
// tests/jobs/launcher/far_ranks.py.
#include "support/must.h"

#include <signal.h>
#include <string.h>

static int rank;
static int size;

static int say(const char* what, gpurun_status status) {
    printf("rank %d: %s: %s: %s\n", rank, what, gpurun_status_string(status),
           status == GPURUN_OK ? "" : gpurun_error_detail());
    fflush(stdout);
    return status == GPURUN_OK ? 0 : 3;
}

static int recv_from(int source) {
    int word = 0;
    return say("recv", gpurun_recv(&word, 1, GPURUN_INT32, source, 0, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
}

// Ranks that have not met: nobody sends what rank 0 waits for.
static int be_strangers(void) {
    int word = 0;
    const gpurun_status status =
        rank == 0 ? gpurun_recv(&word, 1, GPURUN_INT32, size - 1, 0, GPURUN_COMM_WORLD, GPURUN_HOST, NULL) : GPURUN_OK;
    MUST(gpurun_finalize());
    return rank == 0 ? status != GPURUN_ERR_FINALIZED : 0;
}

// The first message between two ranks is the last thing that its source does.
static int send_and_leave(void) {
    const int half = size / 2;
    int word = rank;
    if (rank < half)
        MUST(gpurun_send(&word, 1, GPURUN_INT32, rank + half, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
    else
        MUST(gpurun_recv(&word, 1, GPURUN_INT32, rank - half, 0, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    MUST(gpurun_finalize());
    return rank < half ? 0 : word != rank - half;
}

int main(int argc, char** argv) {
    const char* behaviour = argc > 1 ? argv[1] : "";
    gpurun_status status = gpurun_init();
    if (status != GPURUN_OK)
        return say("init", status);
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    MUST(gpurun_errors_set(GPURUN_ERRORS_RETURN, NULL));
    if (strcmp(behaviour, "strangers") == 0)
        return be_strangers();
    if (strcmp(behaviour, "leave") == 0)
        return send_and_leave();
    status = gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST);
    int result = say("barrier", status);
    if (strcmp(behaviour, "wait") == 0 && status == GPURUN_OK) // for what nobody sends
        result = recv_from(size - 1 - rank);
    if (strcmp(behaviour, "stop") == 0 && rank == 0)
        result = recv_from(size - 1);
    if (strcmp(behaviour, "stop") == 0 && rank == size - 1) {
        raise(SIGSTOP);
        result = say("send", gpurun_send(&size, 1, GPURUN_INT32, 0, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
    }
    (void)gpurun_finalize(); /* with ranks that are lost */
    return result;
}
