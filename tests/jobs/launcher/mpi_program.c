/* Needs a library of MPI, and perhaps libgpurun. */
#ifdef WITH_GPURUN
#include <gpurun/gpurun.h>
#endif

int mpi_library(void);

int main(void) {
#ifdef WITH_GPURUN
    if (gpurun_wtime() < 0)
        return 1;
#endif
    return mpi_library();
}
