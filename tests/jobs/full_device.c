// full_device: messages that bounce arrive on a device that has no memory left for their buffers. For emulated devices,
// with little memory (GPURUN_EMULATED_MEMORY).
#include "support/must.h"

#include <string.h>

enum { kBytes = (9 << 20) + 5, kPiece = 1 << 20, kMessages = 3 };

static int rank, peer;

static void exchange(unsigned char* out, unsigned char* in, gpurun_stream stream) {
    for (int i = 0; i < kMessages; i++) {
        MUST(gpurun_stream_synchronize(stream));
        memset(out, 1 + rank + 10 * i, kBytes);
        memset(in, 0, kBytes);
        MUST(gpurun_sendrecv(out, kBytes, GPURUN_BYTE, peer, 0, in, kBytes, GPURUN_BYTE, peer, 0, GPURUN_COMM_WORLD,
                             stream, NULL));
        MUST(gpurun_stream_synchronize(stream));
        for (int at = 0; at < kBytes; at++)
            if (in[at] != 1 + peer + 10 * i) {
                fprintf(stderr, "rank %d: message %d, byte %d is %d\n", rank, i, at, in[at]);
                gpurun_abort(1);
            }
    }
}

int main(void) {
    gpurun_stream stream;
    void *out, *in, *piece;
    int pieces = 0;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    peer = 1 - rank;
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc_host(&out, kBytes));
    MUST(gpurun_malloc_host(&in, kBytes));
    MUST(gpurun_errors_set(GPURUN_ERRORS_RETURN, NULL));
    while (gpurun_malloc(&piece, kPiece) == GPURUN_OK)
        pieces++;
    printf("rank %d: the device had room for %d pieces\n", rank, pieces);
    MUST(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    exchange(out, in, stream);
    MUST(gpurun_free(out));
    MUST(gpurun_free(in));
    MUST(gpurun_stream_destroy(stream));
    MUST(gpurun_finalize());
    return 0;
}
