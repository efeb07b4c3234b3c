// The driver's entry points, looked up by the statically linked runtime when the device is opened: nothing of gpurun
// links to libcuda.so.
//
// The device is written against the driver rather than the runtime so that an error of ours is never found in
// cudaGetLastError() by the user's own checks, and none of theirs is cleared by us. Both see the same streams,
// events and memory. Immutable after load(); any thread.
#pragma once

#include "base/status.hpp"

#include <cuda.h>

// By the names of the driver's documentation. cuda.h renames some of them to versioned symbols by macro, which
// happens here, in the lookup's type, and at each call alike.
#define GPURUN_CUDA_DRIVER_FUNCTIONS(X)                                                                                \
    X(cuGetErrorName)                                                                                                  \
    X(cuGetErrorString)                                                                                                \
    X(cuInit)                                                                                                          \
    X(cuDriverGetVersion)                                                                                              \
    X(cuDeviceGetCount)                                                                                                \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetAttribute)                                                                                            \
    X(cuDeviceGetName)                                                                                                 \
    X(cuDeviceGetPCIBusId)                                                                                             \
    X(cuDeviceGetUuid)                                                                                                 \
    X(cuDeviceTotalMem)                                                                                                \
    X(cuDeviceCanAccessPeer)                                                                                           \
    X(cuCtxGetCurrent)                                                                                                 \
    X(cuCtxSetCurrent)                                                                                                 \
    X(cuDevicePrimaryCtxGetState)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuDevicePrimaryCtxRelease)                                                                                       \
    X(cuCtxSynchronize)                                                                                                \
    X(cuMemAlloc)                                                                                                      \
    X(cuMemFree)                                                                                                       \
    X(cuMemGetInfo)                                                                                                    \
    X(cuMemAllocAsync)                                                                                                 \
    X(cuMemFreeAsync)                                                                                                  \
    X(cuMemHostAlloc)                                                                                                  \
    X(cuMemFreeHost)                                                                                                   \
    X(cuMemHostRegister)                                                                                               \
    X(cuMemHostUnregister)                                                                                             \
    X(cuMemHostGetDevicePointer)                                                                                       \
    X(cuMemGetAccess)                                                                                                  \
    X(cuMemRetainAllocationHandle)                                                                                     \
    X(cuMemExportToShareableHandle)                                                                                    \
    X(cuMemImportFromShareableHandle)                                                                                  \
    X(cuMemRelease)                                                                                                    \
    X(cuMemAddressReserve)                                                                                             \
    X(cuMemAddressFree)                                                                                                \
    X(cuMemMap)                                                                                                        \
    X(cuMemUnmap)                                                                                                      \
    X(cuMemSetAccess)                                                                                                  \
    X(cuPointerGetAttributes)                                                                                          \
    X(cuPointerSetAttribute)                                                                                           \
    X(cuIpcGetMemHandle)                                                                                               \
    X(cuIpcOpenMemHandle)                                                                                              \
    X(cuIpcCloseMemHandle)                                                                                             \
    X(cuIpcGetEventHandle)                                                                                             \
    X(cuIpcOpenEventHandle)                                                                                            \
    X(cuCtxGetStreamPriorityRange)                                                                                     \
    X(cuStreamCreate)                                                                                                  \
    X(cuStreamCreateWithPriority)                                                                                      \
    X(cuStreamDestroy)                                                                                                 \
    X(cuStreamGetCtx)                                                                                                  \
    X(cuStreamGetId)                                                                                                   \
    X(cuStreamIsCapturing)                                                                                             \
    X(cuStreamBeginCapture)                                                                                            \
    X(cuStreamEndCapture)                                                                                              \
    X(cuThreadExchangeStreamCaptureMode)                                                                               \
    X(cuGraphInstantiateWithFlags)                                                                                     \
    X(cuGraphLaunch)                                                                                                   \
    X(cuGraphDestroy)                                                                                                  \
    X(cuGraphExecDestroy)                                                                                              \
    X(cuUserObjectCreate)                                                                                              \
    X(cuUserObjectRelease)                                                                                             \
    X(cuGraphRetainUserObject)                                                                                         \
    X(cuStreamSynchronize)                                                                                             \
    X(cuStreamQuery)                                                                                                   \
    X(cuStreamWaitEvent)                                                                                               \
    X(cuStreamWriteValue64)                                                                                            \
    X(cuStreamWaitValue64)                                                                                             \
    X(cuMemcpyAsync)                                                                                                   \
    X(cuMemsetD8Async)                                                                                                 \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleGetFunction)                                                                                             \
    X(cuLaunchKernelEx)                                                                                                \
    X(cuLaunchHostFunc)                                                                                                \
    X(cuEventCreate)                                                                                                   \
    X(cuEventDestroy)                                                                                                  \
    X(cuEventRecord)                                                                                                   \
    X(cuEventQuery)                                                                                                    \
    X(cuEventSynchronize)

namespace gpurun::device::cuda {

struct Driver {
#define GPURUN_CUDA_DECLARE(name) decltype(&::name) name = nullptr;
    GPURUN_CUDA_DRIVER_FUNCTIONS(GPURUN_CUDA_DECLARE)
#undef GPURUN_CUDA_DECLARE
    // Of the interface that is looked up; later ones of this name have another argument.
    CUresult (*cuStreamGetCaptureInfo)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                       size_t*) = nullptr;
    CUresult (*cuCtxGetFlags)(unsigned* flags) = nullptr;
    CUresult (*cuCtxSetFlags)(unsigned flags) = nullptr; // since CUDA 12.1: null before

    // kDevice if there is no driver, or one that lacks a function.
    static base::Result<Driver> load();

    // What `call` answered, as a value: "cuMemAlloc: CUDA_ERROR_...: ...". kMemory for exhausted memory.
    base::Result<void> check(CUresult result, const char* call) const {
        if (result == CUDA_SUCCESS) [[likely]]
            return {};
        return error(result, call);
    }
    // The same, where an invalid handle is the caller's: kStream or kEvent instead of kDevice.
    base::Result<void> check(CUresult result, const char* call, base::Status invalid_handle) const;
    base::Error error(CUresult result, const char* call) const;
};

// From now on, what CUDA calls a synchronous copy or fill in the current context is over when its call returns; without
// it, another stream may read what was there before. Where the driver is too old, only exported memory has that.
void complete_copies(const Driver& driver);

} // namespace gpurun::device::cuda
