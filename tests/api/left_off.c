// Rank 1 finalizes at once. Whoever needs it afterwards is told so, and nobody waits for ever.
#include "support/must.h"

#include <stdio.h>
#include <string.h>

enum { kSmall = 8, kLarge = 3000000 };

static void* buffer;
static void* other;
static gpurun_stream order;
static int ranks;

static void refused(gpurun_status status, const char* what, size_t bytes) {
    if (status == GPURUN_ERR_FINALIZED && strstr(gpurun_error_detail(), "gpurun_finalize()") != NULL)
        return;
    fprintf(stderr, "%s of %zu bytes: %s, %s\n", what, bytes, gpurun_status_string(status), gpurun_error_detail());
    gpurun_abort(1);
}

static void messages(size_t bytes) {
    gpurun_request request;
    refused(gpurun_recv(buffer, bytes, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, order, NULL), "receive", bytes);
    refused(gpurun_ssend(buffer, bytes, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, order), "synchronous send", bytes);
    refused(gpurun_sendrecv(buffer, bytes, GPURUN_BYTE, 1, 0, other, bytes, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, order,
                            NULL),
            "sendrecv", bytes);
    MUST(gpurun_irecv(buffer, bytes, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, order, &request));
    refused(gpurun_wait(&request, order, NULL), "started receive", bytes);
    MUST(gpurun_issend(buffer, bytes, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, order, &request));
    refused(gpurun_wait(&request, order, NULL), "started send", bytes);
    if (bytes == kLarge) // a small one is complete when it is on its way
        refused(gpurun_send(buffer, bytes, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, order), "send", bytes);
    if (ranks == 2)
        refused(gpurun_recv(buffer, bytes, GPURUN_BYTE, GPURUN_ANY_SOURCE, 0, GPURUN_COMM_WORLD, order, NULL),
                "receive from any", bytes);
}

static void collectives(size_t bytes) {
    gpurun_request request;
    refused(gpurun_allreduce(buffer, other, bytes, GPURUN_UINT8, GPURUN_SUM, GPURUN_COMM_WORLD, order), "all-reduce",
            bytes);
    refused(gpurun_barrier(GPURUN_COMM_WORLD, order), "barrier", 0);
    refused(gpurun_bcast(buffer, bytes, GPURUN_BYTE, 1, GPURUN_COMM_WORLD, order), "broadcast", bytes);
    MUST(gpurun_iallreduce(buffer, other, bytes, GPURUN_UINT8, GPURUN_SUM, GPURUN_COMM_WORLD, order, &request));
    refused(gpurun_wait(&request, order, NULL), "started all-reduce", bytes);
}

/* What asks, or stops waiting, needs nothing of it. */
static void questions(void) {
    gpurun_request request;
    gpurun_message_status status;
    int found = -1;
    MUST(gpurun_iprobe(1, 0, GPURUN_COMM_WORLD, &found, NULL));
    require(found == 0, "a poll of a rank that has left finds nothing");
    if (ranks == 2) {
        MUST(gpurun_iprobe(GPURUN_ANY_SOURCE, 0, GPURUN_COMM_WORLD, &found, NULL));
        require(found == 0, "a poll of all ranks finds nothing");
    }
    MUST(gpurun_irecv(buffer, kSmall, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, GPURUN_HOST, &request));
    MUST(gpurun_cancel(&request));
    MUST(gpurun_wait(&request, GPURUN_HOST, &status));
    require(status.cancelled == 1, "a receive of a rank that has left is cancelled");
}

int main(void) {
    int rank;
    MUST(gpurun_init());
    MUST(gpurun_errors_set(GPURUN_ERRORS_RETURN, NULL));
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_comm_size(GPURUN_COMM_WORLD, &ranks));
    if (rank != 1) {
        gpurun_stream stream;
        static const size_t sizes[] = {kSmall, kLarge};
        MUST(gpurun_stream_create(&stream));
        MUST(gpurun_malloc(&buffer, kLarge));
        MUST(gpurun_malloc(&other, kLarge));
        refused(gpurun_probe(1, 0, GPURUN_COMM_WORLD, NULL), "probe", 0);
        questions();
        for (int i = 0; i < 4; i++) {
            order = i < 2 ? GPURUN_HOST : stream;
            messages(sizes[i % 2]);
            collectives(sizes[i % 2]);
        }
        MUST(gpurun_stream_synchronize(stream));
        MUST(gpurun_free(buffer));
        MUST(gpurun_free(other));
        MUST(gpurun_stream_destroy(stream));
    }
    MUST(gpurun_finalize());
    return 0;
}
