// abort CODE [early]: one rank aborts, the others wait for a message that never comes. gpurun_abort() must end all.
#include <gpurun/gpurun.h>

#include <stdlib.h>

int main(int argc, char** argv) {
    int code = argc > 1 ? atoi(argv[1]) : 0;
    int rank = 0, size = 0, number;
    if (argc > 2)
        gpurun_abort(code);
    if (gpurun_init() != GPURUN_OK)
        return 99;
    if (gpurun_comm_rank(GPURUN_COMM_WORLD, &rank) != GPURUN_OK)
        return 98;
    if (gpurun_comm_size(GPURUN_COMM_WORLD, &size) != GPURUN_OK)
        return 97;
    if (rank == size - 1)
        gpurun_abort(code);
    (void)gpurun_recv(&number, 1, GPURUN_INT32, GPURUN_ANY_SOURCE, 0, GPURUN_COMM_WORLD, GPURUN_HOST, NULL);
    return 96;
}
