// abort_in_finalize: a thread is in gpurun_abort() while gpurun_finalize() ends in another. The library's calls of
// sendmsg() come to the one below, which waits for that.
#define _GNU_SOURCE // RTLD_NEXT
#include "support/must.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

typedef ssize_t (*Sendmsg)(int, const struct msghdr*, int);

static bool aborts; // set before there is a thread that does
static sem_t sending;
static sem_t finalized;

__attribute__((visibility("default"))) ssize_t sendmsg(int socket, const struct msghdr* message, int flags) {
    Sendmsg real;
    *(void**)&real = dlsym(RTLD_NEXT, "sendmsg");
    if (aborts) {
        sem_post(&sending);
        sem_wait(&finalized);
    }
    return real(socket, message, flags);
}

static void* abort_job(void* unused) {
    (void)unused;
    gpurun_abort(7);
}

int main(void) {
    pthread_t thread;
    sem_init(&sending, 0, 0);
    sem_init(&finalized, 0, 0);
    MUST(gpurun_init());
    aborts = true;
    pthread_create(&thread, NULL, abort_job, NULL);
    sem_wait(&sending);
    MUST(gpurun_finalize());
    sem_post(&finalized);
    pthread_join(thread, NULL);
    return 3;
}
