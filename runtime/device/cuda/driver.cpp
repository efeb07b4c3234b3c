#include "device/cuda/driver.hpp"

#include "base/format.hpp"
#include "base/log.hpp"

#include <cuda_runtime_api.h>

#include <string_view>

namespace gpurun::device::cuda {

namespace {

// The interfaces that this code is written for: those of CUDA 12.0, which every driver since 525 has.
constexpr unsigned kDriverInterface = 12000;
// The interface with cuCtxSetFlags(), which a driver may lack.
constexpr unsigned kFlagsInterface = 12010;

#if CUDART_VERSION >= 12050
cudaError_t look_up(const char* name, void** function, cudaDriverEntryPointQueryResult* found, unsigned interface) {
    return cudaGetDriverEntryPointByVersion(name, function, interface, cudaEnableLegacyStream, found);
}
#else
cudaError_t look_up(const char* name, void** function, cudaDriverEntryPointQueryResult* found, unsigned) {
    return cudaGetDriverEntryPoint(name, function, cudaEnableLegacyStream, found);
}
#endif

template <typename Function>
base::Result<void> find(const char* name, Function& function) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cudaError_t result = look_up(name, &address, &found, kDriverInterface);
    if (result != cudaSuccess) {
        (void)cudaGetLastError();
        return base::error(base::Status::kDevice, "the CUDA driver cannot be used ({}: {})", cudaGetErrorName(result),
                           cudaGetErrorString(result));
    }
    if (found != cudaDriverEntryPointSuccess || address == nullptr)
        return base::error(base::Status::kDevice,
                           "the CUDA driver has no {}; gpurun needs driver 525 or newer (nvidia-smi shows yours)",
                           name);
    function = reinterpret_cast<Function>(address);
    return {};
}

template <typename Function>
void find_if_there(const char* name, Function& function) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    if (look_up(name, &address, &found, kFlagsInterface) != cudaSuccess)
        (void)cudaGetLastError();
    else if (found == cudaDriverEntryPointSuccess)
        function = reinterpret_cast<Function>(address);
}

// Errors after which every CUDA call of the process fails.
bool is_final(CUresult result) {
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED: return true;
    default: return false;
    }
}

} // namespace

base::Result<Driver> Driver::load() {
    Driver driver;
#define GPURUN_CUDA_FIND(name) GPURUN_TRY(find(#name, driver.name));
    GPURUN_CUDA_DRIVER_FUNCTIONS(GPURUN_CUDA_FIND)
#undef GPURUN_CUDA_FIND
    GPURUN_TRY(find("cuStreamGetCaptureInfo", driver.cuStreamGetCaptureInfo));
    find_if_there("cuCtxGetFlags", driver.cuCtxGetFlags);
    find_if_there("cuCtxSetFlags", driver.cuCtxSetFlags);
    return driver;
}

base::Result<void> Driver::check(CUresult result, const char* call, base::Status invalid_handle) const {
    if (result == CUDA_SUCCESS) [[likely]]
        return {};
    base::Error failed = error(result, call);
    if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_CONTEXT)
        failed.status = invalid_handle;
    return failed;
}

namespace {

base::Status status_of(CUresult result) {
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return base::Status::kMemory;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: return base::Status::kStream;
    case CUDA_ERROR_CAPTURED_EVENT: return base::Status::kEvent;
    default: return base::Status::kDevice;
    }
}

} // namespace

base::Error Driver::error(CUresult result, const char* call) const {
    const char* name = nullptr;
    const char* text = nullptr;
    if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr)
        name = "an error that the driver does not name";
    if (cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr)
        text = "?";
    const std::string_view advice =
        is_final(result) ? "; an earlier kernel or the device failed, and this process can use the device no more" : "";
    return base::error(status_of(result), "{}: {}: {}{}", call, name, text, advice);
}

void complete_copies(const Driver& driver) {
    constexpr unsigned kSyncMemops = 0x80; // CU_CTX_SYNC_MEMOPS, which headers before CUDA 12.1 lack
    unsigned flags = 0;
    if (driver.cuCtxGetFlags == nullptr || driver.cuCtxSetFlags == nullptr ||
        driver.cuCtxGetFlags(&flags) != CUDA_SUCCESS || driver.cuCtxSetFlags(flags | kSyncMemops) != CUDA_SUCCESS)
        base::log(base::LogLevel::kWarn, "synchronous copies to memory that cannot be exported may end late: this "
                                         "needs driver 530 or newer");
}

} // namespace gpurun::device::cuda
