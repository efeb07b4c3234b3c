// A rank that has peers on other nodes and nothing to do sleeps: in no call, and with a receive under way. How often it
// wakes up is counted, since that is the same on a slow machine; the time only tells a rank that does not sleep at all.
#define _POSIX_C_SOURCE 200809L // nanosleep

#include "support/must.h"

#include <sys/resource.h>
#include <time.h>

enum { kSeconds = 2, kMostWakeUps = 20 };
static const double kMostMs = 20;

static double cpu_ms(const struct rusage* used) {
    return 1e3 * (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
           1e-3 * (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
}

static int is_idle(const char* when) {
    const struct timespec settle = {0, 300000000}, while_idle = {kSeconds, 0};
    struct rusage before, after;
    nanosleep(&settle, NULL);
    getrusage(RUSAGE_SELF, &before);
    nanosleep(&while_idle, NULL);
    getrusage(RUSAGE_SELF, &after);
    const long woke_up = after.ru_nvcsw - before.ru_nvcsw;
    const double took = cpu_ms(&after) - cpu_ms(&before);
    const int idle = woke_up <= kMostWakeUps && took <= kMostMs;
    if (!idle)
        printf("%ld wake-ups and %.2f ms of CPU in %d s, %s\n", woke_up, took, kSeconds, when);
    return idle;
}

int main(void) {
    int rank = 0, got = 0, well = 1;
    gpurun_request request;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    well = is_idle("in no call");
    MUST(gpurun_irecv(&got, 1, GPURUN_INT32, 1 - rank, 0, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
    well = is_idle("with a receive under way") && well;
    MUST(gpurun_send(&rank, 1, GPURUN_INT32, 1 - rank, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
    MUST(gpurun_wait(&request, GPURUN_HOST, NULL));
    MUST(gpurun_finalize());
    return well && got == 1 - rank ? 0 : 1;
}
