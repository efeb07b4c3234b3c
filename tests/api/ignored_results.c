/* Never run: ignored_results_test.py compiles it, as C and as C++. A compiler must warn of the lines that say so, and
 * of no other. */
#include <gpurun/gpurun.h>

int main(void) {
    gpurun_message_status status;
    int number = 0;
    gpurun_init(); /* warned of */
    (void)gpurun_init();
    gpurun_send(&number, 1, GPURUN_INT32, 1, 0, GPURUN_COMM_WORLD, GPURUN_HOST); /* warned of */
    if (gpurun_recv(&number, 1, GPURUN_INT32, 0, 0, GPURUN_COMM_WORLD, GPURUN_HOST, &status) != GPURUN_OK)
        gpurun_free(0); /* warned of */
    gpurun_version(0, 0, 0);
    gpurun_wtime(); /* warned of */
#ifdef __cplusplus
    float* floats = nullptr;
    gpurun_malloc(&floats, 4); /* warned of, in C++ */
    (void)gpurun_malloc_host(&floats, 4);
#endif
    return gpurun_finalize() == GPURUN_OK ? 0 : 1;
}
