#include "mapped_memory.hpp"

#include "call.hpp"
#include "cuda_call.hpp"
#include "device/entry_point.hpp"

#include <cuda.h>

#include <map>

namespace gpurun::bench {

static void must(CUresult result, const char* what) {
    if (result == CUDA_SUCCESS)
        return;
    std::fprintf(stderr, "gpurun-perf: %s: CUDA error %d\n", what, static_cast<int>(result));
    gpurun_abort(1);
}

namespace {

constexpr size_t kPiece = 2u << 20; // as PyTorch's

template <typename Function>
Function* find(const char* name, Function* found) {
    MUST(find_entry_point(name, found));
    return found;
}

#define DRIVER(function) find(#function, static_cast<decltype(function)*>(nullptr))

std::map<void*, size_t>& mapped() {
    static std::map<void*, size_t> all;
    return all;
}

} // namespace

std::string map_memory(size_t bytes, void** data) {
    gpurun_device_info device{};
    device.size = sizeof device;
    CALL(gpurun_device(&device));
    if (device.kind != GPURUN_DEVICE_CUDA)
        return "emulated devices have no memory of cuMemMap(); use gpurun --device=cuda";
    MUST(cudaSetDevice(device.ordinal));
    MUST(cudaFree(nullptr)); // so that the context is current
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device.ordinal}};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const size_t whole = (bytes + kPiece - 1) / kPiece * kPiece;
    CUdeviceptr base = 0;
    MUST(DRIVER(cuMemAddressReserve)(&base, whole, 0, 0, 0));
    for (size_t at = 0; at < whole; at += kPiece) {
        CUmemGenericAllocationHandle handle = 0;
        if (const CUresult made = DRIVER(cuMemCreate)(&handle, kPiece, &properties, 0); made != CUDA_SUCCESS)
            return "the driver makes no more: CUDA error " + std::to_string(static_cast<int>(made)) +
                   "; use smaller --sizes or --window";
        MUST(DRIVER(cuMemMap)(base + at, kPiece, 0, handle, 0));
        MUST(DRIVER(cuMemRelease)(handle)); // the mapping keeps it
    }
    const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    MUST(DRIVER(cuMemSetAccess)(base, whole, &access, 1));
    *data = reinterpret_cast<void*>(base);
    mapped()[*data] = whole;
    return {};
}

void unmap_memory(void* data) {
    const auto found = mapped().extract(data);
    const auto base = reinterpret_cast<CUdeviceptr>(data);
    MUST(DRIVER(cuMemUnmap)(base, found.mapped()));
    MUST(DRIVER(cuMemAddressFree)(base, found.mapped()));
}

} // namespace gpurun::bench
