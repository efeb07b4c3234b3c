// The public header is strict C99, alone, and its inline parts work from C.
#include <gpurun/gpurun.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    int major = -1, minor = -1, patch = -1;
    gpurun_comm world = GPURUN_COMM_WORLD;
    gpurun_stream host = GPURUN_HOST;
    size_t bytes = 0;
    gpurun_version(&major, &minor, &patch);
    gpurun_version(NULL, NULL, NULL);
    if (major != GPURUN_VERSION_MAJOR || minor != GPURUN_VERSION_MINOR || patch != GPURUN_VERSION_PATCH)
        return fprintf(stderr, "the library is %d.%d.%d\n", major, minor, patch), 1;
    if (world.id == 0 || host == NULL || gpurun_initialized() || gpurun_finalized())
        return 1;
    if (gpurun_type_size(GPURUN_COMPLEX_DOUBLE, &bytes) != GPURUN_OK || bytes != 16)
        return 1;
    return strcmp(gpurun_status_string(GPURUN_ERR_RANK), "GPURUN_ERR_RANK") != 0;
}
