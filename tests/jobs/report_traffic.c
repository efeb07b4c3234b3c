// report_traffic: known messages from rank 0 to rank 1, for report_test.py to find in the report.
#include "support/must.h"

enum { kLarge = 1000000, kSmall = 100, kHuge = 600 << 20 };

static int rank;

static void move(void* buffer, size_t bytes, gpurun_stream domain) {
    if (rank == 0)
        MUST(gpurun_send(buffer, bytes, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, domain));
    else
        MUST(gpurun_recv(buffer, bytes, GPURUN_BYTE, 0, 0, GPURUN_COMM_WORLD, domain, NULL));
}

int main(void) {
    static char host[kLarge];
    gpurun_stream stream;
    void *device, *huge, *ordered, *pinned;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc(&device, kLarge));
    MUST(gpurun_malloc(&huge, kHuge));
    MUST(gpurun_malloc_async(&ordered, kLarge, stream));
    MUST(gpurun_malloc_host(&pinned, kLarge));

    for (int i = 0; i < 2; i++)
        move(host, kSmall, GPURUN_HOST);
    move(host, kLarge, GPURUN_HOST);
    for (int i = 0; i < 3; i++)
        move(device, kLarge, stream);
    for (int i = 0; i < 4; i++)
        move(device, kSmall, stream);
    if (rank == 0)
        MUST(gpurun_recv(NULL, 0, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
    else
        MUST(gpurun_send(NULL, 0, GPURUN_BYTE, 0, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
    for (int i = 0; i < 2; i++)
        move(huge, kLarge, stream);
    for (int i = 0; i < 5; i++)
        move(ordered, kLarge, stream);
    move(rank == 0 ? device : host, kLarge, GPURUN_HOST);
    move(pinned, kLarge, stream);
    move(rank == 0 ? device : pinned, kLarge, stream);

    MUST(gpurun_free_async(ordered, stream));
    MUST(gpurun_stream_synchronize(stream));
    MUST(gpurun_free(device));
    MUST(gpurun_free(huge));
    MUST(gpurun_free(pinned));
    MUST(gpurun_stream_destroy(stream));
    MUST(gpurun_finalize());
    return 0;
}
