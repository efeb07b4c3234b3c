// Collectives whose number, kinds and sizes collective_report_test.py knows. report_collectives ALGORITHMS chooses
// those of all-reduces in a communicator of its own, and makes them in one that was split from that.
#include "support/must.h"

#include <gpurun/gpurun.h>
#include <stddef.h>

enum { kSmall = 4, kLarge = 1 << 20 };

static unsigned char g_from[kLarge], g_into[kLarge];

static void allreduce(size_t count, gpurun_datatype type) {
    MUST(gpurun_allreduce(g_from, g_into, count, type, GPURUN_MAX, GPURUN_COMM_WORLD, GPURUN_HOST));
}

static void choose(const char* algorithms) {
    gpurun_comm chosen = GPURUN_COMM_NULL, part = GPURUN_COMM_NULL;

    MUST(gpurun_comm_dup(GPURUN_COMM_WORLD, &chosen));
    MUST(gpurun_comm_set_algorithm(chosen, "allreduce", algorithms));
    MUST(gpurun_comm_split(chosen, 0, 0, &part));
    for (size_t bytes = kSmall; bytes <= kLarge; bytes *= 4)
        MUST(gpurun_allreduce(g_from, g_into, bytes / 4, GPURUN_INT32, GPURUN_MAX, part, GPURUN_HOST));
    allreduce(kLarge / 4, GPURUN_INT32); // as the job has it
    MUST(gpurun_comm_free(&part));
    MUST(gpurun_comm_free(&chosen));
}

int main(int argc, char** argv) {
    gpurun_request request;

    MUST(gpurun_init());
    if (argc > 1) {
        choose(argv[1]);
        MUST(gpurun_finalize());
        return 0;
    }
    for (int i = 0; i < 3; i++)
        allreduce(kSmall / 4, GPURUN_INT32);
    for (int i = 0; i < 2; i++)
        allreduce(kLarge / 4, GPURUN_INT32);
    allreduce(kLarge / 2, GPURUN_FLOAT16);
    MUST(gpurun_iallreduce(g_from, g_into, kLarge / 4, GPURUN_INT32, GPURUN_SUM, GPURUN_COMM_WORLD, GPURUN_HOST,
                           &request));
    MUST(gpurun_wait(&request, GPURUN_HOST, NULL));
    MUST(gpurun_reduce(g_from, g_into, kLarge / 4, GPURUN_INT32, GPURUN_SUM, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
    MUST(gpurun_bcast(g_into, kSmall, GPURUN_BYTE, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    MUST(gpurun_barrier(GPURUN_COMM_SELF, GPURUN_HOST));
    MUST(gpurun_finalize());
    return 0;
}
