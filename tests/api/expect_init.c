// expect_init STATUS WORD...: gpurun_init() must fail with STATUS, and its message must have every WORD in it.
#include <gpurun/gpurun.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
    if (argc < 2)
        return 2;
    const char* status = gpurun_status_string(gpurun_init());
    const char* detail = gpurun_error_detail();
    int wrong = strcmp(status, argv[1]) != 0;
    for (int i = 2; i < argc; i++)
        wrong += strstr(detail, argv[i]) == NULL;
    printf("%s: %s\n", status, detail);
    return wrong == 0 ? 0 : 1;
}
