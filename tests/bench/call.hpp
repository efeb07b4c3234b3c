// Errors while measuring end the whole job: half a measurement is none.
#pragma once

#include <gpurun/gpurun.h>

#include <cstdio>

#define CALL(call)                                                                                                     \
    do {                                                                                                               \
        const gpurun_status call_status = (call);                                                                      \
        if (call_status != GPURUN_OK) {                                                                                \
            std::fprintf(stderr, "gpurun-perf: %s: %s: %s\n", #call, gpurun_status_string(call_status),                \
                         gpurun_error_detail());                                                                       \
            gpurun_abort(1);                                                                                           \
        }                                                                                                              \
    } while (false)
