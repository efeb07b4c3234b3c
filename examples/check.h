// How the examples handle errors: an example that fails says where and why, and ends its whole job.
//
//   CHECK(call)               every gpurun call
//   EXPECT(condition, ...)    what must be true of a result; the rest is printf's
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <gpurun/gpurun.h>

#include <stdio.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        gpurun_status check_status = (call);                                                                           \
        if (check_status != GPURUN_OK) {                                                                               \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, gpurun_status_string(check_status),      \
                    gpurun_error_detail());                                                                            \
            gpurun_abort(1);                                                                                           \
        }                                                                                                              \
    } while (0)

#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: wrong: ", __FILE__, __LINE__);                                                     \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            gpurun_abort(1);                                                                                           \
        }                                                                                                              \
    } while (0)

#endif
