// stamp_kernels.h for emulated devices, whose streams are threads of this process.
#define _POSIX_C_SOURCE 200809L // clock_gettime

#include "../check.h"
#include "stamp_kernels.h"

#include <time.h>

static void run_stamp(void *ns) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *(uint64_t *)ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void stamp(gpurun_stream stream, uint64_t *ns) { CHECK(gpurun_launch_host(stream, run_stamp, ns)); }

const struct stamp_kernels host_stamp_kernels = {stamp};
