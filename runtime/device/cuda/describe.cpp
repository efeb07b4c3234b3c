// What an address is: one question to the driver, about 0.2 us, no allocation for memory seen before; for memory of
// cudaMalloc() that was seen lately, less. Memory of cuMemMap(), and of another device, takes some more.

#include "device/cuda/cuda_device.hpp"

#include "base/format.hpp"
#include "platform/readable.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace gpurun::device::cuda {

using base::Result;
using base::Status;

// The driver's answers, whose types differ in width; all start as zero, which is also its answer for an address that
// it does not know.
struct CudaDevice::Attributes {
    uint64_t type = 0; // CUmemorytype, 0: unknown to CUDA
    uint64_t start = 0;
    uint64_t size = 0;
    uint64_t id = 0;
    uint64_t managed = 0;
    uint64_t exportable = 0;
    uint64_t pool = 0; // from cudaMallocAsync
    uint64_t ordinal = 0;
    uint64_t on_device = 0; // the address by which kernels of the rank's device reach it, if they do

    uint32_t memory_type() const { return static_cast<uint32_t>(type); }
    CUdevice device() const { return static_cast<CUdevice>(static_cast<uint32_t>(ordinal)); }
    // The driver answers without a range for some kinds of memory.
    bool has_range(uintptr_t address) const { return address >= start && address - start < size; }
    size_t room(uintptr_t address) const { return has_range(address) ? size - (address - start) : 0; }
};

// A part of an address range of cuMemAddressReserve(), and what is mapped there.
struct CudaDevice::Mapping {
    uint64_t type = 0;
    uint64_t mapped = 0;
    uint64_t base = 0;
    uint64_t size = 0;
    uint64_t ordinal = 0;
    uint64_t access = 0; // CUmemAccess_flags of the device whose context is current
    uint64_t id = 0;
    uint64_t handle_types = 0; // in which the driver exports it

    // Where it ends; not behind `address` if the driver does not say.
    uintptr_t end(uintptr_t address) const { return size != 0 && address - base < size ? base + size : address; }
};

// The pieces that a buffer lies in.
struct CudaDevice::Span {
    Mapping whole; // what all of them are, or allow
    uintptr_t base = 0;
    uintptr_t end = 0;
    SpanId id;
};

namespace {

template <size_t N>
CUresult ask(const Driver& driver, uintptr_t address, std::array<CUpointer_attribute, N> questions,
             std::array<void*, N> answers) {
    return driver.cuPointerGetAttributes(static_cast<unsigned>(N), questions.data(), answers.data(), address);
}

CUresult ask(const Driver& driver, uintptr_t address, CudaDevice::Attributes& found) {
    return ask<9>(driver, address,
                  {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                   CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER},
                  {&found.type, &found.start, &found.size, &found.id, &found.managed, &found.exportable, &found.pool,
                   &found.ordinal, &found.on_device});
}

CUresult ask(const Driver& driver, uintptr_t address, CudaDevice::Mapping& found) {
    return ask<8>(driver, address,
                  {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MAPPED,
                   CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
                   CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES},
                  {&found.type, &found.mapped, &found.base, &found.size, &found.ordinal, &found.access, &found.id,
                   &found.handle_types});
}

Buffer buffer_of(Placement placement, const CudaDevice::Attributes& found) {
    Buffer buffer;
    buffer.placement = placement;
    buffer.base = host_view(found.start);
    buffer.size = found.size;
    buffer.id = found.id;
    return buffer;
}

} // namespace

// Nothing if the address is not known, has got other memory since, or the bytes reach too far: then everything is
// asked.
std::optional<Buffer> CudaDevice::recall(const void* pointer, size_t bytes) const {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const auto known = known_.find(address);
    if (!known || bytes > known->size - (address - known->start))
        return std::nullopt;
    uint64_t id = 0;
    const auto current = enter();
    if (ask<1>(driver_, address, {CU_POINTER_ATTRIBUTE_BUFFER_ID}, {&id}) != CUDA_SUCCESS || id != known->id)
        return std::nullopt;
    Buffer buffer;
    buffer.placement = Placement::kDevice;
    buffer.base = host_view(known->start);
    buffer.size = known->size;
    buffer.id = id;
    buffer.exportable = true;
    return buffer;
}

Result<Buffer> CudaDevice::describe(const void* pointer, size_t bytes) {
    if (const auto known = recall(pointer, bytes))
        return *known;
    Attributes found;
    {
        const auto current = enter();
        const CUresult result = ask(driver_, reinterpret_cast<uintptr_t>(pointer), found);
        // Documented both ways for an address that CUDA does not know: success and zeros, or one of these.
        if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_CONTEXT)
            found = Attributes{};
        else
            GPURUN_TRY(driver_.check(result, "cuPointerGetAttributes"));
    }
    if (found.memory_type() == 0 && found.managed == 0)
        return describe_unknown(pointer, bytes);
    if (found.managed == 0 && found.memory_type() == CU_MEMORYTYPE_HOST)
        return describe_host(found, pointer, bytes);
    if (found.managed != 0 || found.exportable != 0 || found.pool != 0)
        return describe_allocation(found, pointer, bytes);
    return describe_mapped(found, pointer, bytes);
}

Result<Buffer> CudaDevice::describe_unknown(const void* pointer, size_t bytes) {
    GPURUN_TRY(pinned_memory_.check(pointer, bytes));
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (!seen_.contains(address))
        return Buffer{};
    if (!platform::readable(pointer))
        return base::error(Status::kBuffer, "{} lies in device or pinned memory that has been freed", pointer);
    seen_.forget(address); // the system has given the address to host memory since
    return Buffer{};
}

// What is not pinned as a whole, or not by this address, is left to the CPU: copy engines refuse it, kernels fault.
Result<Buffer> CudaDevice::describe_host(const Attributes& found, const void* pointer, size_t bytes) {
    GPURUN_ASSIGN(const PinnedAllocations::Allocation own, pinned_memory_.check(pointer, bytes));
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (found.on_device != address)
        return Buffer{};
    if (bytes > found.room(address)) {
        Attributes last;
        const auto current = enter();
        if (ask(driver_, address + (bytes - 1), last) != CUDA_SUCCESS || last.memory_type() != CU_MEMORYTYPE_HOST ||
            last.id != found.id)
            return Buffer{};
    }
    seen_.note(found.id, found.start, found.size);
    Buffer buffer = buffer_of(Placement::kPinned, found);
    if (own.base != nullptr) { // CUDA knows whole pages
        buffer.base = own.base;
        buffer.size = own.bytes;
        buffer.exportable = own.exportable;
    }
    return buffer;
}

Result<Buffer> CudaDevice::describe_allocation(const Attributes& found, const void* pointer, size_t bytes) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Buffer buffer = buffer_of(found.managed != 0 ? Placement::kManaged : Placement::kDevice, found);
    if (found.has_range(address) && bytes > found.room(address))
        return base::error(Status::kBuffer, "{} bytes at {} reach past the end of their allocation of {} bytes", bytes,
                           pointer, found.size);
    if (found.has_range(address) && device_memory_later_.contains(host_view(found.start)))
        return base::error(Status::kBuffer, "{} lies in device memory that has been freed", pointer);
    const bool is_new = seen_.note(found.id, found.start, found.size);
    if (found.managed != 0)
        return buffer;
    if (found.device() == facts_.device) {
        buffer.exportable = found.has_range(address) && found.exportable != 0 && found.pool == 0;
        if (buffer.exportable && found.id != 0)
            known_.keep(address, {found.id, found.start, found.size});
        return buffer;
    }
    const auto current = enter();
    Mapping there;
    GPURUN_TRY(driver_.check(ask(driver_, address, there), "cuPointerGetAttributes"));
    if (found.on_device == address && there.access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return buffer; // the user has enabled peer access, or imported it from another process
    buffer.placement = Placement::kElsewhere;
    if (is_new && found.pool == 0)
        complete_copies_to(pointer);
    return buffer;
}

// Memory of cuMemMap(), such as PyTorch's expandable segments, is any number of pieces side by side in a reserved
// range, which need not be mapped everywhere. Each device has the access that it was given. Variables of kernels end
// here, too.
Result<Buffer> CudaDevice::describe_mapped(const Attributes& found, const void* pointer, size_t bytes) {
    Buffer buffer = buffer_of(Placement::kDevice, found);
    const bool elsewhere = found.device() != facts_.device;
    GPURUN_ASSIGN(const Span span, walk(pointer, bytes));
    const Mapping& whole = span.whole;
    seen_.note(found.id, found.start, found.size);
    if (whole.access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        if (elsewhere || (whole.handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0)
            return buffer;
        buffer.base = host_view(span.base);
        buffer.size = span.end - span.base;
        buffer.id = span.id.value();
        buffer.exportable = buffer.in_pieces = true;
        return buffer;
    }
    if (!granted(facts_.device, pointer)) { // no memory of cuMemMap()
        buffer.placement = elsewhere ? Placement::kElsewhere : Placement::kDevice;
        return buffer;
    }
    if (whole.access == CU_MEM_ACCESS_FLAGS_PROT_READ) {
        buffer.read_only = true;
        return buffer;
    }
    const unsigned there = elsewhere ? granted(found.device(), pointer).value_or(0) : 0;
    if (there == 0)
        return base::error(Status::kBuffer,
                           "neither this rank's CUDA device {} nor the memory's own, {}, has access to the {} bytes at "
                           "{}: give it by cuMemSetAccess()",
                           facts_.device, found.device(), bytes, pointer);
    buffer.placement = Placement::kElsewhere;
    buffer.read_only = there == CU_MEM_ACCESS_FLAGS_PROT_READ;
    return buffer;
}

// All pieces are there, on one device.
Result<CudaDevice::Span> CudaDevice::walk(const void* pointer, size_t bytes) const {
    const auto current = enter();
    const auto first = reinterpret_cast<uintptr_t>(pointer);
    const uintptr_t end = first + std::min(std::max<size_t>(bytes, 1), UINTPTR_MAX - first);
    Span span;
    Mapping& whole = span.whole;
    for (uintptr_t at = first; at < end;) {
        Mapping piece;
        const CUresult result = ask(driver_, at, piece);
        if (result != CUDA_ERROR_INVALID_VALUE) // another way to say that nothing is there
            GPURUN_TRY(driver_.check(result, "cuPointerGetAttributes"));
        if (piece.mapped == 0 || piece.type != CU_MEMORYTYPE_DEVICE)
            return base::error(Status::kBuffer,
                               "{} bytes at {} reach past the end of what is mapped there, {} bytes: check the count, "
                               "or was a part of it unmapped?",
                               bytes, pointer, at - first);
        if (at == first) {
            whole = piece;
            span.base = piece.base;
        }
        if (piece.ordinal != whole.ordinal)
            return base::error(Status::kBuffer,
                               "the {} bytes at {} are memory of CUDA device {} up to {} and of device {} from there "
                               "on: use two messages",
                               bytes, pointer, whole.ordinal, host_view(at), piece.ordinal);
        whole.access &= piece.access;
        whole.handle_types &= piece.handle_types;
        span.id.add(piece.id);
        if (piece.end(at) == at) { // the driver does not say how far it reaches
            whole.handle_types = 0;
            return span;
        }
        at = span.end = piece.end(at);
    }
    return span;
}

// The access that `device` was given to memory of cuMemMap(); nothing if it is not such memory.
std::optional<unsigned> CudaDevice::granted(CUdevice device, const void* pointer) const {
    const auto current = enter();
    const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    unsigned long long flags = 0;
    if (driver_.cuMemGetAccess(&flags, &location, device_pointer(pointer)) != CUDA_SUCCESS)
        return std::nullopt;
    return static_cast<unsigned>(flags);
}

} // namespace gpurun::device::cuda
