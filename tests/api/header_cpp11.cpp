// The public header is C++11 too, and links as C. Pointers of any type take memory without a cast.
#include <gpurun/gpurun.h>

namespace {

struct Cell {
    double value;
};

bool refuses_before_init() {
    const gpurun_comm world = GPURUN_COMM_WORLD;
    int rank = -1;
    int* numbers = &rank;
    return gpurun_comm_rank(world, &rank) == GPURUN_ERR_NOT_INITIALIZED && rank == -1 &&
           gpurun_malloc(&numbers, 4) == GPURUN_ERR_NOT_INITIALIZED && numbers == &rank;
}

bool allocates() {
    float* floats = nullptr;
    const Cell* cells = nullptr;
    volatile char* chars = nullptr;
    void* untyped = nullptr;
    gpurun_stream stream = nullptr;
    if (gpurun_malloc(&floats, 3 * sizeof(float)) != GPURUN_OK || floats == nullptr)
        return false;
    if (gpurun_malloc_host(&cells, sizeof(Cell)) != GPURUN_OK || cells == nullptr)
        return false;
    if (gpurun_stream_create(&stream) != GPURUN_OK)
        return false;
    if (gpurun_malloc_async(&chars, 1, stream) != GPURUN_OK || chars == nullptr)
        return false;
    if (gpurun_malloc(&untyped, 1) != GPURUN_OK || untyped == nullptr)
        return false;
    return gpurun_free(floats) == GPURUN_OK && gpurun_free(const_cast<Cell*>(cells)) == GPURUN_OK &&
           gpurun_free_async(const_cast<char*>(chars), stream) == GPURUN_OK && gpurun_free(untyped) == GPURUN_OK &&
           gpurun_stream_destroy(stream) == GPURUN_OK;
}

// As in C: NULL for the output is refused, 0 bytes give NULL, and a failure leaves the output as it is.
bool keeps_to_the_contract() {
    float some = 0;
    float* floats = &some;
    return gpurun_malloc(static_cast<float**>(nullptr), 4) == GPURUN_ERR_ARGUMENT &&
           gpurun_malloc(&floats, static_cast<size_t>(-1) / 2) == GPURUN_ERR_MEMORY && floats == &some &&
           gpurun_malloc_async(&floats, 4, GPURUN_HOST) == GPURUN_ERR_STREAM && floats == &some &&
           gpurun_malloc(&floats, 0) == GPURUN_OK && floats == nullptr;
}

} // namespace

int main() {
    if (!refuses_before_init() || gpurun_init() != GPURUN_OK)
        return 1;
    if (!allocates() || !keeps_to_the_contract())
        return 1;
    return gpurun_finalize() == GPURUN_OK ? 0 : 1;
}
