// The public header is C++11 too, and links as C.
#include <gpurun/gpurun.h>

int main() {
    const gpurun_comm world = GPURUN_COMM_WORLD;
    int rank = -1;
    return gpurun_comm_rank(world, &rank) == GPURUN_ERR_NOT_INITIALIZED && rank == -1 ? 0 : 1;
}
