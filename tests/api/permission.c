/* permission TIMES: how often gpurun_init() asks the system to let other processes read this one's memory.
   The library's calls of prctl() come to the one below. */
#define _GNU_SOURCE
#include <gpurun/gpurun.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int g_permitted = 0;

__attribute__((visibility("default"))) int prctl(int option, ...) {
    unsigned long arguments[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++)
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_PTRACER)
        g_permitted++;
    return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

int main(int argc, char** argv) {
    if (argc < 2 || gpurun_init() != GPURUN_OK)
        return 2;
    const int permitted = g_permitted;
    if (gpurun_finalize() != GPURUN_OK)
        return 2;
    if (permitted == atoi(argv[1]))
        return 0;
    fprintf(stderr, "permitted %d times instead of %s\n", permitted, argv[1]);
    return 1;
}
