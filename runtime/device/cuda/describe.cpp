// What an address is: one question to the driver, about 0.2 us, no allocation for memory seen before.

#include "device/cuda/cuda_device.hpp"

#include "base/format.hpp"
#include "platform/readable.hpp"

#include <array>

namespace gpurun::device::cuda {

namespace {

// The driver's answers, whose types differ in width; all start as zero, which is also its answer for an address that
// it does not know.
struct Attributes {
    uint64_t type = 0; // CUmemorytype, 0: unknown to CUDA
    uint64_t start = 0;
    uint64_t size = 0;
    uint64_t id = 0;
    uint64_t managed = 0;
    uint64_t exportable = 0;
    uint64_t pool = 0; // from cudaMallocAsync
    uint64_t ordinal = 0;

    uint32_t memory_type() const { return static_cast<uint32_t>(type); }
    int device() const { return static_cast<int>(static_cast<uint32_t>(ordinal)); }
};

CUresult ask(const Driver& driver, const void* pointer, Attributes& found) {
    std::array<CUpointer_attribute, 8> questions = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    };
    std::array<void*, 8> answers = {
        &found.type,    &found.start,      &found.size, &found.id,
        &found.managed, &found.exportable, &found.pool, &found.ordinal,
    };
    return driver.cuPointerGetAttributes(static_cast<unsigned>(questions.size()), questions.data(), answers.data(),
                                         device_pointer(pointer));
}

Placement placement_of(const Attributes& found) {
    if (found.managed != 0)
        return Placement::kManaged;
    return found.memory_type() == CU_MEMORYTYPE_HOST ? Placement::kPinned : Placement::kDevice;
}

} // namespace

base::Result<Buffer> CudaDevice::describe(const void* pointer, size_t bytes) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Attributes found;
    {
        const auto current = enter();
        const CUresult result = ask(driver_, pointer, found);
        // Documented both ways for an address that CUDA does not know: success and zeros, or one of these.
        if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_CONTEXT)
            found = Attributes{};
        else
            GPURUN_TRY(driver_.check(result, "cuPointerGetAttributes"));
    }
    if (found.memory_type() == 0 && found.managed == 0) {
        if (!seen_.contains(address))
            return Buffer{};
        if (!platform::readable(pointer))
            return base::error(base::Status::kBuffer, "{} lies in device or pinned memory that has been freed",
                               pointer);
        seen_.forget(address); // the system has given the address to host memory since
        return Buffer{};
    }

    Buffer buffer;
    buffer.placement = placement_of(found);
    buffer.id = found.id;
    if (buffer.placement == Placement::kDevice && found.device() != facts_.device)
        return base::error(base::Status::kBuffer,
                           "{} is memory of CUDA device {}, but this rank uses device {}; allocate it there, or call "
                           "cudaSetDevice() before allocating",
                           pointer, found.device(), facts_.device);
    // The driver answers without a range for some kinds of host memory.
    if (found.size == 0 || address < found.start || address - found.start >= found.size)
        return buffer;
    buffer.base = host_view(found.start);
    buffer.size = found.size;
    buffer.exportable = buffer.placement == Placement::kDevice && found.exportable != 0 && found.pool == 0;
    const size_t room = found.size - (address - found.start);
    if (bytes > room)
        return base::error(base::Status::kBuffer, "{} bytes at {} reach past the end of their allocation of {} bytes",
                           bytes, pointer, found.size);
    seen_.note(found.id, found.start, found.size);
    return buffer;
}

} // namespace gpurun::device::cuda
