// Memory of the device, and host memory that its streams reach.

#include "device/cuda/cuda_device.hpp"

#include "base/format.hpp"
#include "base/log.hpp"

namespace gpurun::device::cuda {

namespace {

constexpr size_t kMuch = size_t{1} << 28; // of host memory

base::Error no_such_allocation(const void* pointer, const char* maker) {
    return base::error(base::Status::kBuffer, "{} is not the start of memory from {}, or it was freed before", pointer,
                       maker);
}

} // namespace

base::Error CudaDevice::out_of_memory(size_t bytes) const {
    size_t left = 0;
    size_t total = 0;
    if (driver_.cuMemGetInfo(&left, &total) != CUDA_SUCCESS)
        return base::error(base::Status::kMemory, "{} has no {} bytes left", facts_.info.name, bytes);
    return base::error(base::Status::kMemory,
                       "{} bytes were asked for, but {} has {} of {} bytes left (nvidia-smi shows who holds the rest)",
                       bytes, facts_.info.uuid, left, total);
}

base::Result<void*> CudaDevice::allocate(size_t bytes) {
    const auto current = enter_beside_capture();
    CUdeviceptr pointer = 0;
    const CUresult result = driver_.cuMemAlloc(&pointer, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return out_of_memory(bytes);
    GPURUN_TRY(driver_.check(result, "cuMemAlloc"));
    device_memory_.insert(host_view(pointer));
    (void)describe(host_view(pointer), bytes); // so that its address is on record when it is freed
    return host_view(pointer);
}

base::Result<void> CudaDevice::free(void* pointer) {
    if (!device_memory_.erase(pointer))
        return no_such_allocation(pointer, "gpurun_malloc()");
    const auto current = enter_beside_capture();
    return driver_.check(driver_.cuMemFree(device_pointer(pointer)), "cuMemFree");
}

base::Result<void*> CudaDevice::allocate_ordered(size_t bytes, Stream stream) {
    const auto current = enter_beside_capture(); // of another stream
    CUdeviceptr pointer = 0;
    const CUresult result = driver_.cuMemAllocAsync(&pointer, bytes, native(stream));
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return out_of_memory(bytes);
    GPURUN_TRY(driver_.check(result, "cuMemAllocAsync", base::Status::kStream));
    ordered_memory_.insert(host_view(pointer));
    return host_view(pointer);
}

base::Result<void> CudaDevice::free_ordered(void* pointer, Stream stream) {
    if (!ordered_memory_.erase(pointer))
        return no_such_allocation(pointer, "gpurun_malloc_async()");
    const auto current = enter_beside_capture();
    auto freed = driver_.check(driver_.cuMemFreeAsync(device_pointer(pointer), native(stream)), "cuMemFreeAsync",
                               base::Status::kStream);
    if (!freed)
        ordered_memory_.insert(pointer);
    return freed;
}

base::Result<void*> CudaDevice::allocate_pinned(size_t bytes) {
    if (bytes == 0)
        return static_cast<void*>(nullptr);
    GPURUN_ASSIGN(const SharedHostMemory::Allocation made, pin(bytes));
    pinned_memory_.insert(made.pointer, bytes, made.exportable);
    (void)describe(made.pointer, bytes); // so that its address is on record when it is freed
    return made.pointer;
}

base::Result<SharedHostMemory::Allocation> CudaDevice::pin(size_t bytes) {
    if (!facts_.host_pointers) { // what is registered would have another address on the device
        const auto current = enter_beside_capture();
        void* pointer = nullptr;
        const unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
        GPURUN_TRY(
            driver_.check(driver_.cuMemHostAlloc(&pointer, bytes, flags), "cuMemHostAlloc", base::Status::kMemory));
        return SharedHostMemory::Allocation{pointer, bytes, false};
    }
    // All of it is touched at once: the system would end a process for what it does not have.
    if (const size_t left = bytes >= kMuch ? platform::available_memory() : 0; left != 0 && bytes > left)
        return base::error(base::Status::kMemory, "{} bytes of host memory were asked for, but the system has {} left",
                           bytes, left);
    GPURUN_ASSIGN(const SharedHostMemory::Allocation made, host_memory_.allocate(bytes));
    if (auto registered = register_host(made.pointer, made.bytes); !registered) {
        host_memory_.free(made.pointer);
        return std::move(registered).error();
    }
    return made;
}

base::Result<void> CudaDevice::free_pinned(void* pointer) {
    if (!pinned_memory_.erase(pointer))
        return no_such_allocation(pointer, "gpurun_malloc_host()");
    return unpin(pointer);
}

base::Result<void> CudaDevice::unpin(void* pointer) {
    if (!facts_.host_pointers) {
        const auto current = enter_beside_capture();
        return driver_.check(driver_.cuMemFreeHost(pointer), "cuMemFreeHost");
    }
    GPURUN_TRY(unregister_host(pointer)); // a failed device keeps it
    host_memory_.free(pointer);
    return {};
}

base::Result<void> CudaDevice::free_later(void* pointer) {
    if (device_memory_.erase(pointer)) {
        device_memory_later_.insert(pointer);
        known_.forget(reinterpret_cast<uintptr_t>(pointer));
    } else if (!pinned_memory_.free_later(pointer)) {
        return no_such_allocation(pointer, "gpurun_malloc() or gpurun_malloc_host()");
    }
    return {};
}

void CudaDevice::give_back() {
    const auto current = enter_beside_capture();
    const auto look = [](const base::Result<void>& freed) {
        if (!freed)
            base::log(base::LogLevel::kWarn, "what was freed, or destroyed, before: {}", freed.error().detail);
    };
    for (void* each : device_memory_later_.take_all())
        look(driver_.check(driver_.cuMemFree(device_pointer(each)), "cuMemFree"));
    for (void* each : pinned_memory_.take_freed())
        look(unpin(each));
    for (void* each : graphs_later_.take_all())
        look(driver_.check(driver_.cuGraphExecDestroy(static_cast<CUgraphExec>(each)), "cuGraphExecDestroy"));
}

base::Result<void> CudaDevice::register_host(void* memory, size_t bytes) {
    const auto current = enter_beside_capture();
    const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    const CUresult result = driver_.cuMemHostRegister(memory, bytes, flags);
    if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        return base::error(base::Status::kBuffer, "{} bytes of host memory at {} are registered with CUDA already",
                           bytes, memory);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return base::error(base::Status::kMemory,
                           "the system cannot pin {} bytes of host memory (ulimit -l may be too low)", bytes);
    return driver_.check(result, "cuMemHostRegister");
}

base::Result<void> CudaDevice::unregister_host(void* memory) {
    const auto current = enter_beside_capture();
    const CUresult result = driver_.cuMemHostUnregister(memory);
    if (result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED || result == CUDA_ERROR_INVALID_VALUE)
        return base::error(base::Status::kBuffer, "{} is not the start of registered host memory", memory);
    return driver_.check(result, "cuMemHostUnregister");
}

} // namespace gpurun::device::cuda
