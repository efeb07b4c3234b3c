/* unmapped_source: rank 0 starts to send a message and unmaps its memory, which is a mistake. Rank 1, which is to
   receive it, must get an error that says so, soon, and so must rank 0; both can go on. */
#define _GNU_SOURCE
#include <gpurun/gpurun.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define BYTES ((size_t)4 << 20)
#define BOUND_S 5.0
#define SKIPPED 77

static void must(int fine, const char* what) {
    if (fine)
        return;
    fprintf(stderr, "%s (%s)\n", what, gpurun_error_detail());
    gpurun_abort(1);
}
#define MUST(call) must((call) == GPURUN_OK, #call)

static void send_unmapped(void) {
    long self[2] = {getpid(), 0};
    void* memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    gpurun_request request;
    must(memory != MAP_FAILED, "mmap");
    memset(memory, 1, BYTES);
    self[1] = (long)(size_t)self;
    MUST(gpurun_isend(memory, BYTES, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
    munmap(memory, BYTES);
    MUST(gpurun_send(self, 2, GPURUN_INT64, 1, 1, GPURUN_COMM_WORLD, GPURUN_HOST));
    must(gpurun_wait(&request, GPURUN_HOST, NULL) == GPURUN_ERR_BUFFER,
         "the send gives another status than ERR_BUFFER");
    must(strstr(gpurun_error_detail(), "unmapped") != NULL,
         "the send's error does not say that its memory is unmapped");
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
}

static void receive_unmapped(void) {
    long other[2], pid = 0;
    void* memory = malloc(BYTES);
    double begun;
    MUST(gpurun_recv(other, 2, GPURUN_INT64, 0, 1, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    struct iovec local = {&pid, sizeof pid}, remote = {(void*)(size_t)other[1], sizeof pid};
    if (process_vm_readv((pid_t)other[0], &local, 1, &remote, 1, 0) != sizeof pid) {
        fprintf(stderr, "the system lets no process read another's memory\n");
        gpurun_abort(SKIPPED);
    }
    begun = gpurun_wtime();
    must(gpurun_recv(memory, BYTES, GPURUN_BYTE, 0, 0, GPURUN_COMM_WORLD, GPURUN_HOST, NULL) == GPURUN_ERR_SYSTEM,
         "the receive gives another status than GPURUN_ERR_SYSTEM");
    must(strstr(gpurun_error_detail(), "unmapped") != NULL, "the error does not say that the memory is unmapped");
    must(gpurun_wtime() - begun < BOUND_S, "the error took too long");
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    free(memory);
}

int main(void) {
    int rank;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    if (rank == 0)
        send_unmapped();
    else
        receive_unmapped();
    MUST(gpurun_finalize());
    return 0;
}
