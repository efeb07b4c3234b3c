// The public header is strict C99, alone, and its inline parts work from C.
#include <gpurun/gpurun.h>

#include <stdio.h>
#include <string.h>

/* Whether a type by C's name is as large as C's, and is the signed or the unsigned one. */
#define AGREES(name, type)                                                                                             \
    (name == (sizeof(type) == 1   ? ((type)-1 < (type)1 ? GPURUN_INT8 : GPURUN_UINT8)                                  \
              : sizeof(type) == 2 ? ((type)-1 < (type)1 ? GPURUN_INT16 : GPURUN_UINT16)                                \
              : sizeof(type) == 4 ? ((type)-1 < (type)1 ? GPURUN_INT32 : GPURUN_UINT32)                                \
                                  : ((type)-1 < (type)1 ? GPURUN_INT64 : GPURUN_UINT64)) &&                            \
     gpurun_type_size(name, &bytes) == GPURUN_OK && bytes == sizeof(type))

static int c_names_agree(void) {
    size_t bytes = 0;
    return AGREES(GPURUN_SIGNED_CHAR, signed char) && AGREES(GPURUN_UNSIGNED_CHAR, unsigned char) &&
           AGREES(GPURUN_SHORT, short) && AGREES(GPURUN_UNSIGNED_SHORT, unsigned short) && AGREES(GPURUN_INT, int) &&
           AGREES(GPURUN_UNSIGNED, unsigned) && AGREES(GPURUN_LONG, long) &&
           AGREES(GPURUN_UNSIGNED_LONG, unsigned long) && AGREES(GPURUN_LONG_LONG, long long) &&
           AGREES(GPURUN_UNSIGNED_LONG_LONG, unsigned long long) && AGREES(GPURUN_SIZE_T, size_t);
}

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
    if (!c_names_agree())
        return 1;
    return strcmp(gpurun_status_string(GPURUN_ERR_RANK), "GPURUN_ERR_RANK") != 0;
}
