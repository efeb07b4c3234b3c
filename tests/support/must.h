// For ranks in C: a call of gpurun that fails says so, and ends the job.
#pragma once

#include <gpurun/gpurun.h>

#include <stdio.h>

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        gpurun_status must_status = (call);                                                                            \
        if (must_status != GPURUN_OK) {                                                                                \
            fprintf(stderr, "%s: %s: %s\n", #call, gpurun_status_string(must_status), gpurun_error_detail());          \
            gpurun_abort(1);                                                                                           \
        }                                                                                                              \
    } while (0)

// The same of what does not hold.
static inline void require(int holds, const char* what) {
    if (holds)
        return;
    fprintf(stderr, "not so: %s (%s)\n", what, gpurun_error_detail());
    gpurun_abort(1);
}
