#include "buffer.hpp"

#include "call.hpp"

#include <cstdlib>
#include <cstring>

namespace gpurun::bench {

namespace {

gpurun_status allocate_async(void** data, size_t bytes) {
    gpurun_stream stream = nullptr;
    CALL(gpurun_stream_create(&stream));
    const gpurun_status allocated = gpurun_malloc_async(data, bytes, stream);
    CALL(gpurun_stream_synchronize(stream)); // usable in every order domain
    CALL(gpurun_stream_destroy(stream));
    return allocated;
}

void free_async(void* data) {
    gpurun_stream stream = nullptr;
    CALL(gpurun_stream_create(&stream));
    CALL(gpurun_free_async(data, stream));
    CALL(gpurun_stream_destroy(stream));
}

gpurun_status allocate(Memory memory, void** data, size_t bytes) {
    switch (memory) {
    case Memory::kDevice: return gpurun_malloc(data, bytes);
    case Memory::kDeviceAsync: return allocate_async(data, bytes);
    case Memory::kPinned: return gpurun_malloc_host(data, bytes);
    case Memory::kHost:
        *data = std::malloc(bytes);
        if (*data == nullptr)
            return GPURUN_ERR_MEMORY;
        std::memset(*data, 0, bytes); // no page is touched for the first time inside of what is timed
        return GPURUN_OK;
    }
    return GPURUN_ERR_ARGUMENT;
}

} // namespace

Buffer::Buffer(Memory memory, size_t bytes) : memory_(memory) {
    const gpurun_status status = allocate(memory, &data_, bytes);
    if (status == GPURUN_OK)
        return;
    std::fprintf(stderr,
                 "gpurun-perf: cannot allocate %zu bytes of %s memory: %s: %s; use smaller --sizes or --window\n",
                 bytes, name(memory), gpurun_status_string(status), gpurun_error_detail());
    gpurun_abort(1);
}

Buffer::~Buffer() {
    switch (memory_) {
    case Memory::kDevice:
    case Memory::kPinned: CALL(gpurun_free(data_)); break;
    case Memory::kDeviceAsync: free_async(data_); break;
    case Memory::kHost: std::free(data_); break;
    }
}

} // namespace gpurun::bench
