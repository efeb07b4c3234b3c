// no_threads BEHAVIOUR: two ranks whose requests are under way while they are in no call of gpurun.
//   refused   the system gives them no thread for that: then messages move in calls, as with GPURUN_PROGRESS=calls
//   signals   what the program has blocked by then arrives in no thread of the runtime's
// The library's calls of pthread_create() come to the one below.
#define _GNU_SOURCE // RTLD_NEXT
#include "support/must.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { kRequests = 16, kLarge = 3000000 };

typedef int (*PthreadCreate)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

static bool refuses;
static int refused;
static char outgoing[kRequests][kLarge];
static char incoming[kRequests][kLarge];

__attribute__((visibility("default"))) int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                                          void* (*run)(void*), void* argument) {
    if (refuses) {
        refused++;
        return EAGAIN;
    }
    PthreadCreate real;
    *(void**)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attributes, run, argument);
}

// Messages of all sizes, small ones in a row.
static size_t bytes_of(int i) { return i < kRequests - 2 ? (size_t)(1 + i * 100) : kLarge; }

static void exchange(int peer) {
    gpurun_request requests[2 * kRequests];
    for (int i = 0; i < kRequests; i++)
        MUST(
            gpurun_irecv(incoming[i], bytes_of(i), GPURUN_BYTE, peer, i, GPURUN_COMM_WORLD, GPURUN_HOST, &requests[i]));
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    for (int i = 0; i < kRequests; i++) {
        memset(outgoing[i], i + 1, bytes_of(i));
        MUST(gpurun_isend(outgoing[i], bytes_of(i), GPURUN_BYTE, peer, i, GPURUN_COMM_WORLD, GPURUN_HOST,
                          &requests[kRequests + i]));
    }
    MUST(gpurun_waitall(2 * kRequests, requests, GPURUN_HOST, NULL));
    for (int i = 0; i < kRequests; i++)
        if (incoming[i][0] != i + 1 || memcmp(incoming[i], outgoing[i], bytes_of(i)) != 0) {
            fprintf(stderr, "message %d is another\n", i);
            gpurun_abort(1);
        }
}

static void check_signals(int peer) {
    gpurun_request request;
    gpurun_stream stream; // an emulated one has a thread
    sigset_t mine;
    sigset_t pending;
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_irecv(incoming[0], 1, GPURUN_BYTE, peer, 0, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &mine, NULL);
    kill(getpid(), SIGUSR1); // the end of this process, if any thread lets it in
    sigpending(&pending);
    if (!sigismember(&pending, SIGUSR1)) {
        fprintf(stderr, "the signal has arrived\n");
        gpurun_abort(1);
    }
    MUST(gpurun_send(outgoing[0], 1, GPURUN_BYTE, peer, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
    MUST(gpurun_wait(&request, GPURUN_HOST, NULL));
    MUST(gpurun_stream_destroy(stream));
}

int main(int argc, char** argv) {
    int rank = 0;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    if (argc > 1 && strcmp(argv[1], "signals") == 0) {
        check_signals(1 - rank);
    } else {
        refuses = true;
        exchange(1 - rank);
        refuses = false;
        if (refused == 0) {
            fprintf(stderr, "no thread was asked for\n");
            gpurun_abort(1);
        }
    }
    MUST(gpurun_finalize());
    return 0;
}
