// How the examples handle errors: an example that fails says where, and ends its whole job. gpurun itself has written
// on standard error what went wrong in its call (GPURUN_ERRORS).
//
//   CHECK(call)               every gpurun call
//   EXPECT(condition, ...)    what must be true of a result; the rest is printf's
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <gpurun/gpurun.h>

#include <stdio.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != GPURUN_OK) {                                                                                     \
            fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #call);                                          \
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
