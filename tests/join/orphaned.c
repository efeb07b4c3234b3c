/* orphaned RANK: of two ranks whose supervisor is killed, after it has printed "lent" or "borrowed". Rank 0 has lent
 * memory to rank 1, which keeps it until a line comes, and lives until its input ends. Rank 0 prints what becomes of
 * the request, and of its own memory. */
#include <gpurun/gpurun.h>

#include <stdio.h>
#include <stdlib.h>

enum { kBytes = 1 << 20 };

static void say(const char* what, gpurun_status status) {
    printf("%s: %s: %s\n", what, gpurun_status_string(status), status == GPURUN_OK ? "" : gpurun_error_detail());
    fflush(stdout);
}

static int must(gpurun_status status, const char* what) {
    if (status != GPURUN_OK) {
        say(what, status);
        exit(1);
    }
    return 0;
}
#define MUST(call) must(call, #call)

static void lend(gpurun_comm world) {
    gpurun_request request;
    gpurun_stream stream;
    char* memory;
    void* allocation;
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc(&allocation, kBytes));
    memory = allocation;
    MUST(gpurun_lend(memory, kBytes, GPURUN_LOAN_EXCLUSIVE, 1, 1, world, GPURUN_HOST, &request));
    MUST(gpurun_recv(NULL, 0, GPURUN_BYTE, 1, 2, world, GPURUN_HOST, NULL));
    printf("lent\n");
    fflush(stdout);
    say("recv", gpurun_recv(NULL, 0, GPURUN_BYTE, 1, 2, world, GPURUN_HOST, NULL));
    say("memset", gpurun_memset(memory, 0, kBytes, GPURUN_HOST));
    say("wait", gpurun_wait(&request, GPURUN_HOST, NULL));
    MUST(gpurun_memset(memory, 3, kBytes, stream));
    MUST(gpurun_stream_synchronize(stream));
    printf("own: %d\n", *(volatile char*)memory); /* which a CPU can read on an emulated device */
    say("unregister", gpurun_unregister(memory, 0));
    say("unregister later", gpurun_unregister(memory, -1));
    MUST(gpurun_free(memory));
    (void)gpurun_finalize(); /* with a rank that is lost */
}

static void borrow(gpurun_comm world) {
    gpurun_loan loan;
    MUST(gpurun_borrow(0, 1, world, GPURUN_HOST, &loan, NULL));
    MUST(gpurun_send(NULL, 0, GPURUN_BYTE, 0, 2, world, GPURUN_HOST));
    printf("borrowed\n");
    fflush(stdout);
    if (getchar() != EOF)
        say("give back", gpurun_give_back(&loan, GPURUN_HOST));
    while (getchar() != EOF) {
    }
}

int main(int argc, char** argv) {
    if (argc != 2)
        return 2;
    MUST(gpurun_init_as("orphaned", atoi(argv[1]), 2));
    if (atoi(argv[1]) == 0)
        lend(GPURUN_COMM_WORLD);
    else
        borrow(GPURUN_COMM_WORLD);
    return 0;
}
