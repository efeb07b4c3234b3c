/* A program of somebody else: built against an installed gpurun, as C99 and as C++, and run by it with two ranks. */
#include <gpurun/gpurun.h>

#include <stdio.h>
#include <string.h>

static int fail(const char* what) {
    fprintf(stderr, "%s: %s\n", what, gpurun_error_detail());
    return 1;
}

int main(void) {
    const char said[] = "hello from an outside program";
    char heard[64] = "";
    int rank = -1, size = -1, major = -1, minor = -1, patch = -1;
    char version[64];

    gpurun_version(&major, &minor, &patch);
    snprintf(version, sizeof version, "%d.%d.%d", major, minor, patch);
    if (strcmp(version, GPURUN_VERSION) != 0)
        return fail("the library is not the header's");
    if (gpurun_init() != GPURUN_OK)
        return fail("init");
    if (gpurun_comm_rank(GPURUN_COMM_WORLD, &rank) != GPURUN_OK)
        return fail("rank");
    if (gpurun_comm_size(GPURUN_COMM_WORLD, &size) != GPURUN_OK || size != 2)
        return fail("size");

    if (rank == 0) {
        if (gpurun_send(said, sizeof said, GPURUN_CHAR, 1, 7, GPURUN_COMM_WORLD, GPURUN_HOST) != GPURUN_OK)
            return fail("send");
    } else {
        gpurun_message_status status;
        if (gpurun_recv(heard, sizeof heard, GPURUN_CHAR, 0, 7, GPURUN_COMM_WORLD, GPURUN_HOST, &status) != GPURUN_OK)
            return fail("recv");
        if (status.bytes != sizeof said || strcmp(heard, said) != 0)
            return fail("another message came");
        printf("%s\n", heard);
    }
    return gpurun_finalize() == GPURUN_OK ? 0 : fail("finalize");
}
