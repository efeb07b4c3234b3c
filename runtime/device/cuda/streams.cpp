// Streams and what is enqueued in them. Nothing here waits for the device but what says so.

#include "device/cuda/cuda_device.hpp"

#include "base/format.hpp"

#include <cuda_runtime_api.h>

namespace gpurun::device::cuda {

namespace {

// The default stream, and CUDA's names for its two kinds (cudaStreamLegacy, cudaStreamPerThread).
bool is_default_stream(Stream stream) { return reinterpret_cast<uintptr_t>(stream.native) <= 2; }

// What no pointer of the driver's is. The driver itself follows whatever it is given.
bool is_no_pointer(Stream stream) {
    const auto address = reinterpret_cast<uintptr_t>(stream.native);
    return address < 65536 || address % alignof(void*) != 0 || address >> 47 != 0;
}

base::Error not_a_stream(Stream stream) {
    return base::error(base::Status::kStream,
                       "{} is not a stream of this rank's device; create it after cudaSetDevice(), or with "
                       "gpurun_stream_create()",
                       stream.address());
}

base::Error stream_of_another(Stream stream, CUdevice its, CUdevice own) {
    return base::error(base::Status::kStream,
                       "{} is a stream of CUDA device {}, but this rank's is {}: pass a stream of the rank's device, "
                       "and order the two by cudaEventRecord() and cudaStreamWaitEvent()",
                       stream.address(), its, own);
}

base::Error capture_has_failed(Stream stream) {
    return base::error(base::Status::kStream,
                       "the capture of stream {} has failed, by an earlier call; end it and begin again",
                       stream.address());
}

// The device whose primary context this is. What is no context at all is never followed.
std::optional<CUdevice> device_with(const Driver& driver, CUcontext context) {
    int count = 0;
    (void)driver.cuDeviceGetCount(&count);
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        CUdevice device = 0;
        unsigned flags = 0;
        int active = 0;
        CUcontext primary = nullptr;
        if (driver.cuDeviceGet(&device, ordinal) != CUDA_SUCCESS ||
            driver.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0 ||
            driver.cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
            continue;
        (void)driver.cuDevicePrimaryCtxRelease(device);
        if (primary == context)
            return device;
    }
    return std::nullopt;
}

} // namespace

base::Result<void> CudaDevice::make_current() {
    if (cudaError_t result = cudaSetDevice(facts_.device); result != cudaSuccess) {
        (void)cudaGetLastError();
        return base::error(base::Status::kDevice, "cudaSetDevice: {}: {}", cudaGetErrorName(result),
                           cudaGetErrorString(result));
    }
    return {};
}

base::Result<Stream> CudaDevice::make_stream(int priority) {
    const auto current = enter_beside_capture();
    CUstream stream = nullptr;
    GPURUN_TRY(driver_.check(driver_.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority),
                             "cuStreamCreateWithPriority"));
    streams_.insert(stream);
    return Stream{stream};
}

// The driver waits for the whole device when it makes the 36th stream of a process, and every 43rd after that
// (tests/device/call_facts.cu).
base::Result<void> CudaDevice::reserve_urgent_streams(size_t count) {
    const std::lock_guard lock(reserve_.mutex);
    reserve_.wanted += count;
    for (; count > 0 && reserve_.streams.size() < reserve_.wanted; --count) { // some may be left of a joint job
        GPURUN_ASSIGN(const Stream stream, create_urgent_stream());
        reserve_.streams.push_back(stream);
    }
    return {};
}

void CudaDevice::release_reserved_streams(size_t count) {
    const std::lock_guard lock(reserve_.mutex);
    reserve_.wanted -= count;
}

base::Result<Stream> CudaDevice::take_reserved_stream() {
    {
        const std::lock_guard lock(reserve_.mutex);
        if (!reserve_.streams.empty()) {
            const Stream stream = reserve_.streams.back();
            reserve_.streams.pop_back();
            return stream;
        }
    }
    return create_urgent_stream();
}

CudaDevice::~CudaDevice() {
    for (const Stream stream : reserve_.streams)
        (void)destroy_stream(stream); // a failed device keeps it; nothing to do
}

base::Result<void> CudaDevice::destroy_stream(Stream stream) {
    if (!streams_.erase(stream.native))
        return base::error(base::Status::kStream,
                           "{} is not a stream of gpurun_stream_create(), or it was destroyed before",
                           stream.address());
    const auto current = enter_beside_capture();
    auto finished = driver_.check(driver_.cuStreamSynchronize(native(stream)), "cuStreamSynchronize");
    auto destroyed = driver_.check(driver_.cuStreamDestroy(native(stream)), "cuStreamDestroy");
    return finished ? std::move(destroyed) : std::move(finished);
}

base::Result<bool> CudaDevice::is_captured(Stream stream) {
    if (is_default_stream(stream) && native(stream) != CU_STREAM_PER_THREAD) // CUDA does not capture the others
        return false;
    if (!is_default_stream(stream)) {
        if (is_no_pointer(stream))
            return not_a_stream(stream);
        CUcontext context = nullptr;
        const CUresult result = driver_.cuStreamGetCtx(native(stream), &context);
        if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
            return capture_has_failed(stream);
        if (result != CUDA_SUCCESS)
            return not_a_stream(stream);
        if (context != facts_.context) {
            const auto its = device_with(driver_, context);
            return its && *its != facts_.device ? stream_of_another(stream, *its, facts_.device) : not_a_stream(stream);
        }
    }
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    GPURUN_TRY(driver_.check(driver_.cuStreamIsCapturing(native(stream), &capturing), "cuStreamIsCapturing",
                             base::Status::kStream));
    if (capturing == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return capture_has_failed(stream);
    return capturing == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

base::Result<void> CudaDevice::synchronize(Stream stream) {
    const auto current = enter_beside_capture();
    return driver_.check(driver_.cuStreamSynchronize(native(stream)), "cuStreamSynchronize", base::Status::kStream);
}

base::Result<bool> CudaDevice::query(Stream stream) {
    const auto current = enter_beside_capture();
    const CUresult result = driver_.cuStreamQuery(native(stream));
    if (result == CUDA_ERROR_NOT_READY)
        return false;
    GPURUN_TRY(driver_.check(result, "cuStreamQuery", base::Status::kStream));
    return true;
}

base::Result<uint64_t> CudaDevice::name(Stream stream) {
    const auto current = enter_beside_capture(); // of another stream, whose messages the thread moves
    unsigned long long name = 0;
    GPURUN_TRY(driver_.check(driver_.cuStreamGetId(native(stream), &name), "cuStreamGetId", base::Status::kStream));
    return name;
}

base::Result<void> CudaDevice::synchronize_all() {
    const auto current = enter_beside_capture();
    return driver_.check(driver_.cuCtxSynchronize(), "cuCtxSynchronize");
}

base::Result<void> CudaDevice::copy(void* destination, const void* source, size_t bytes, Stream stream) {
    if (bytes == 0)
        return {};
    const auto current = enter();
    return driver_.check(
        driver_.cuMemcpyAsync(device_pointer(destination), device_pointer(source), bytes, native(stream)),
        "cuMemcpyAsync", base::Status::kStream);
}

base::Result<void> CudaDevice::fill(void* destination, int value, size_t bytes, Stream stream) {
    if (bytes == 0)
        return {};
    const auto current = enter();
    return driver_.check(
        driver_.cuMemsetD8Async(device_pointer(destination), static_cast<unsigned char>(value), bytes, native(stream)),
        "cuMemsetD8Async", base::Status::kStream);
}

base::Result<CUdevice> CudaDevice::device_of(const void* first, const void* second) const {
    for (const void* each : {first, second}) {
        uint32_t type = 0;
        int ordinal = 0;
        CUpointer_attribute questions[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
        void* answers[] = {&type, &ordinal};
        const auto current = enter();
        GPURUN_TRY(driver_.check(driver_.cuPointerGetAttributes(2, questions, answers, device_pointer(each)),
                                 "cuPointerGetAttributes"));
        if (type == CU_MEMORYTYPE_DEVICE)
            return ordinal;
    }
    return base::error(base::Status::kBuffer, "{} is not memory of a device", first);
}

base::Result<void> CudaDevice::copy_elsewhere(void* destination, const void* source, size_t bytes, Stream stream) {
    if (bytes == 0)
        return {};
    GPURUN_ASSIGN(const CUdevice there, device_of(destination, source));
    return elsewhere_.enqueue(there, native(stream), [&](CUstream branch) {
        return driver_.cuMemcpyAsync(device_pointer(destination), device_pointer(source), bytes, branch);
    });
}

base::Result<void> CudaDevice::fill_elsewhere(void* destination, int value, size_t bytes, Stream stream) {
    if (bytes == 0)
        return {};
    GPURUN_ASSIGN(const CUdevice there, device_of(destination, destination));
    return elsewhere_.enqueue(there, native(stream), [&](CUstream branch) {
        return driver_.cuMemsetD8Async(device_pointer(destination), static_cast<unsigned char>(value), bytes, branch);
    });
}

base::Result<void> CudaDevice::call_host(Stream stream, void (*function)(void*), void* argument) {
    const auto current = enter();
    return driver_.check(driver_.cuLaunchHostFunc(native(stream), function, argument), "cuLaunchHostFunc",
                         base::Status::kStream);
}

base::Result<CUdeviceptr> CudaDevice::device_address(const Counter* counter) const {
    if (facts_.host_pointers) [[likely]]
        return device_pointer(counter);
    CUdeviceptr address = 0;
    GPURUN_TRY(driver_.check(driver_.cuMemHostGetDevicePointer(&address, const_cast<Counter*>(counter), 0),
                             "cuMemHostGetDevicePointer"));
    return address;
}

// The default flags of both make earlier writes visible first, and later reads come after: the contract's order.
base::Result<void> CudaDevice::write_counter(Stream stream, Counter* counter, uint64_t value) {
    const auto current = enter();
    GPURUN_ASSIGN(const CUdeviceptr address, device_address(counter));
    return driver_.check(driver_.cuStreamWriteValue64(native(stream), address, value, CU_STREAM_WRITE_VALUE_DEFAULT),
                         "cuStreamWriteValue64", base::Status::kStream);
}

base::Result<void> CudaDevice::await_counter(Stream stream, Counter* counter, uint64_t value) {
    const auto current = enter();
    GPURUN_ASSIGN(const CUdeviceptr address, device_address(counter));
    return driver_.check(driver_.cuStreamWaitValue64(native(stream), address, value, CU_STREAM_WAIT_VALUE_GEQ),
                         "cuStreamWaitValue64", base::Status::kStream);
}

} // namespace gpurun::device::cuda
