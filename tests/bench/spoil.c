/* Preloaded into gpurun-perf, it spoils one byte of one copy that rank 1 makes: of what it sends, or of what it has
 * received and checks. Shows that gpurun-perf sees a wrong byte, and names it. */
#define _GNU_SOURCE
#include <gpurun/gpurun.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef gpurun_status copy_function(void*, const void*, size_t, gpurun_stream);

/* Copies of messages are told from others by their length, which the test chooses and says. */
gpurun_status gpurun_memcpy(void* destination, const void* source, size_t size, gpurun_stream stream) {
    static int copies = 0;
    copy_function* original;
    void* symbol = dlsym(RTLD_NEXT, "gpurun_memcpy");
    const char* length = getenv("SPOIL_LENGTH");
    const char* which = getenv("SPOIL_COPY");
    const char* rank = getenv("GPURUN_RANK");
    gpurun_status status;
    memcpy(&original, &symbol, sizeof original);
    status = original(destination, source, size, stream);
    if (length && which && rank && *rank == '1' && size == strtoul(length, NULL, 10) && ++copies == atoi(which))
        ((unsigned char*)destination)[size / 2] ^= 0x40;
    return status;
}
