#include "buffer.hpp"

#include "call.hpp"
#include "mapped_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

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

// Why there is none, or "".
std::string why_none(gpurun_status status) {
    if (status == GPURUN_OK)
        return {};
    return std::string(gpurun_status_string(status)) + ": " + gpurun_error_detail() +
           "; use smaller --sizes or --window";
}

std::string allocate(Memory memory, void** data, size_t bytes) {
    switch (memory) {
    case Memory::kDevice: return why_none(gpurun_malloc(data, bytes));
    case Memory::kDeviceAsync: return why_none(allocate_async(data, bytes));
    case Memory::kDeviceMapped: return map_memory(bytes, data);
    case Memory::kPinned: return why_none(gpurun_malloc_host(data, bytes));
    case Memory::kHost:
        *data = std::malloc(bytes);
        if (*data == nullptr)
            return "the system has no more; use smaller --sizes or --window";
        std::memset(*data, 0, bytes); // no page is touched for the first time inside of what is timed
        break;
    }
    return {};
}

} // namespace

Buffer::Buffer(Memory memory, size_t bytes) : memory_(memory) {
    const std::string reason = allocate(memory, &data_, bytes);
    if (reason.empty())
        return;
    std::fprintf(stderr, "gpurun-perf: cannot allocate %zu bytes of %s memory: %s\n", bytes, name(memory),
                 reason.c_str());
    gpurun_abort(1);
}

Buffer::~Buffer() {
    switch (memory_) {
    case Memory::kDevice:
    case Memory::kPinned: CALL(gpurun_free(data_)); break;
    case Memory::kDeviceAsync: free_async(data_); break;
    case Memory::kDeviceMapped: unmap_memory(data_); break;
    case Memory::kHost: std::free(data_); break;
    }
}

} // namespace gpurun::bench
