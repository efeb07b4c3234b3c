// A rank that has peers on other nodes and nothing to do takes no CPU time: in no call, and with a receive under way.
#define _POSIX_C_SOURCE 200809L // nanosleep

#include "support/must.h"

#include <sys/resource.h>
#include <time.h>

enum { kSeconds = 2 };
static const double kMostMs = 1;

static double cpu_ms(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return 1e3 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-3 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static int is_idle(const char* when) {
    const struct timespec settle = {0, 300000000}, while_idle = {kSeconds, 0};
    nanosleep(&settle, NULL);
    const double before = cpu_ms();
    nanosleep(&while_idle, NULL);
    const double took = cpu_ms() - before;
    if (took > kMostMs)
        printf("%.2f ms of CPU in %d s, %s\n", took, kSeconds, when);
    return took <= kMostMs;
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
