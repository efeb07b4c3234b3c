// late_graph: a captured message whose graph comes to its end at the target when its source has unmapped what they
// share.
//
// All are in gpurun_finalize() by then: rank 0 has nothing to wait for, rank 1 the work that its graph stands
// behind, and rank 2 more than that. Nobody has anything to complain about.
#include "support/must.h"

enum { kBytes = 4096, kWork = 64 << 20, kTimes = 16 };

int main(void) {
    int rank;
    gpurun_stream stream;
    gpurun_graph graph;
    void *message, *work;
    MUST(gpurun_init());
    MUST(gpurun_comm_rank(GPURUN_COMM_WORLD, &rank));
    MUST(gpurun_stream_create(&stream));
    MUST(gpurun_malloc(&message, kBytes));
    MUST(gpurun_malloc(&work, kWork));

    if (rank < 2) {
        MUST(gpurun_capture_begin(stream));
        if (rank == 0)
            MUST(gpurun_send(message, kBytes, GPURUN_BYTE, 1, 0, GPURUN_COMM_WORLD, stream));
        else
            MUST(gpurun_recv(message, kBytes, GPURUN_BYTE, 0, 0, GPURUN_COMM_WORLD, stream, NULL));
        MUST(gpurun_capture_end(stream, &graph));
    }
    for (int i = 0; i < rank * rank * kTimes; i++)
        MUST(gpurun_memset(work, i, kWork, stream));
    if (rank < 2) {
        MUST(gpurun_graph_launch(graph, stream));
        MUST(gpurun_graph_destroy(graph));
    }
    MUST(gpurun_finalize());
    return 0;
}
