// mistakes MISTAKE: two ranks, or a process alone, of which rank 0 makes mistakes that it does not look at. What is
// printed, and how the job ends, is for errors_test.py to judge.
#include "support/must.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { kTag = 3, kNobody = 7 };

static const gpurun_stream host = GPURUN_HOST;

static void send_to_nobody(void) {
    int number = 1;
    (void)gpurun_send(&number, 1, GPURUN_INT32, kNobody, kTag, GPURUN_COMM_WORLD, host);
}

// Rank 0 receives less than rank 1 sends, or as much.
static void receive(int rank, size_t room) {
    int numbers[8] = {0};
    if (rank == 1)
        MUST(gpurun_send(numbers, 8, GPURUN_INT32, 0, kTag, GPURUN_COMM_WORLD, host));
    else
        (void)gpurun_recv(numbers, room, GPURUN_INT32, 1, kTag, GPURUN_COMM_WORLD, host, NULL);
}

// The program's choice holds over that of the environment, until it is taken back.
static void be_quiet_for_one(void) {
    gpurun_errors before = GPURUN_ERRORS_RETURN, quiet = GPURUN_ERRORS_WARN;
    MUST(gpurun_errors_set(GPURUN_ERRORS_RETURN, &before));
    send_to_nobody();
    MUST(gpurun_errors_set(before, &quiet));
    if (quiet != GPURUN_ERRORS_RETURN)
        fprintf(stderr, "the mode was %d\n", (int)quiet);
    (void)gpurun_errors_set((gpurun_errors)0, &quiet);
    if (quiet != GPURUN_ERRORS_RETURN)
        fprintf(stderr, "an output was written\n");
}

static void count_what_is_not_whole(void) {
    gpurun_message_status status;
    size_t count = 41;
    memset(&status, 0, sizeof status);
    status.bytes = 10;
    if (gpurun_get_count(&status, GPURUN_INT32, &count) != GPURUN_ERR_COUNT || count != 41)
        fprintf(stderr, "%zu elements\n", count);
}

static void lose_peer(int rank) {
    int number;
    if (rank == 1)
        raise(SIGKILL);
    const gpurun_status status = gpurun_recv(&number, 1, GPURUN_INT32, 1, kTag, GPURUN_COMM_WORLD, host, NULL);
    printf("%s\n", gpurun_status_string(status));
}

int main(int argc, char** argv) {
    const char* mistake = argc > 1 ? argv[1] : "";
    int rank = -1;
    if (strcmp(mistake, "too-early") == 0)
        send_to_nobody();
    if (strcmp(mistake, "choice-before-init") == 0)
        MUST(gpurun_errors_set(GPURUN_ERRORS_RETURN, NULL));
    if (gpurun_init() != GPURUN_OK)
        return 1;
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    if (strcmp(mistake, "truncated") == 0)
        receive(rank, 4);
    else if (strcmp(mistake, "none") == 0)
        receive(rank, 8);
    else if (strcmp(mistake, "death") == 0)
        lose_peer(rank);
    else if (rank == 0 && strcmp(mistake, "quiet-for-one") == 0)
        be_quiet_for_one();
    else if (rank == 0 && (strcmp(mistake, "rank") == 0 || strcmp(mistake, "choice-before-init") == 0))
        send_to_nobody();
    else if (rank == 0 && strcmp(mistake, "count") == 0)
        count_what_is_not_whole();
    else if (rank == 0 && strcmp(mistake, "many") == 0)
        for (int i = 0; i < 1000; i++)
            send_to_nobody();
    return gpurun_finalize() == GPURUN_OK ? 0 : 1;
}
