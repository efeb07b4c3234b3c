// Making the kinds of memory of allocations.hpp.
#include "allocations.hpp"
#include "entry_point.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include <sys/mman.h>
#include <unistd.h>

namespace allocations {

void give_up(const char* file, int line, const char* call, int result) {
    std::printf("%s:%d: %s: %d\n", file, line, call, result);
    std::fflush(stdout);
    _exit(1);
}

// ---- mapped memory

namespace {

// What was mapped where, to be unmapped.
struct Pieces {
    std::vector<CUdeviceptr> starts;
    size_t bytes = 0;
};
std::map<void*, Pieces>& mapped_ranges() {
    static std::map<void*, Pieces> ranges;
    return ranges;
}

CUmemAccessDesc access_for(int device, bool writable) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    return access;
}

} // namespace

Driver::Driver() {
    MUST(find_entry_point("cuMemGetAllocationGranularity", cuMemGetAllocationGranularity));
    MUST(find_entry_point("cuMemAddressReserve", cuMemAddressReserve));
    MUST(find_entry_point("cuMemAddressFree", cuMemAddressFree));
    MUST(find_entry_point("cuMemCreate", cuMemCreate));
    MUST(find_entry_point("cuMemRelease", cuMemRelease));
    MUST(find_entry_point("cuMemMap", cuMemMap));
    MUST(find_entry_point("cuMemUnmap", cuMemUnmap));
    MUST(find_entry_point("cuMemSetAccess", cuMemSetAccess));
}

const Driver& driver() {
    static const Driver found;
    return found;
}

void* Mapped::map() const {
    int able = 0;
    MUST(cudaDeviceGetAttribute(
        &able, static_cast<cudaDeviceAttr>(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), device));
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = access_for(device, true).location;
    properties.requestedHandleTypes = shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    size_t granularity = 0;
    if (able == 0 ||
        driver().cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
            CUDA_SUCCESS ||
        piece % granularity != 0)
        return nullptr;
    CUdeviceptr base = 0;
    MUST(driver().cuMemAddressReserve(&base, kBytes, 0, 0, 0));
    Pieces pieces{{}, piece};
    for (size_t at = first; at < last; at += piece) {
        CUmemGenericAllocationHandle handle = 0;
        MUST(driver().cuMemCreate(&handle, piece, &properties, 0));
        MUST(driver().cuMemMap(base + at, piece, 0, handle, 0));
        MUST(driver().cuMemRelease(handle)); // the mapping keeps it
        std::vector<CUmemAccessDesc> access;
        for (const int each : reached_by)
            access.push_back(access_for(each, writable));
        if (!access.empty())
            MUST(driver().cuMemSetAccess(base + at, piece, access.data(), access.size()));
        pieces.starts.push_back(base + at);
    }
    void* const range = reinterpret_cast<void*>(base);
    mapped_ranges()[range] = std::move(pieces);
    return range;
}

void Mapped::unmap(void* range) {
    const auto found = mapped_ranges().find(range);
    for (const CUdeviceptr start : found->second.starts)
        MUST(driver().cuMemUnmap(start, found->second.bytes));
    MUST(driver().cuMemAddressFree(reinterpret_cast<CUdeviceptr>(range), kBytes));
    mapped_ranges().erase(found);
}

// ---- the kinds

namespace {

// `device` is current while this lives.
class Current {
  public:
    explicit Current(int device) {
        MUST(cudaGetDevice(&before_));
        MUST(cudaSetDevice(device));
    }
    ~Current() { (void)cudaSetDevice(before_); }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

  private:
    int before_ = 0;
};

void free_device(void* memory) { MUST(cudaFree(memory)); }

// Memory of a device, which is current while it is made.
Kind on_device(const std::string& name, Class is, int device, const std::function<void*()>& make) {
    return {name,
            is,
            device,
            false,
            true,
            [device, make] {
                const Current current(device);
                return make();
            },
            free_device};
}

Kind plain(const std::string& name, Class is, int device) {
    return on_device(name, is, device, [] {
        void* memory = nullptr;
        MUST(cudaMalloc(&memory, kBytes));
        return memory;
    });
}

Kind ordered(const std::string& name, Class is, int device) {
    return on_device(name, is, device, []() -> void* {
        void* memory = nullptr;
        if (cudaMallocAsync(&memory, kBytes, nullptr) != cudaSuccess)
            return nullptr;
        MUST(cudaStreamSynchronize(nullptr));
        return memory;
    });
}

Kind pooled(const std::string& name, Class is, int device, cudaMemAllocationHandleType handles) {
    return on_device(name, is, device, [device, handles]() -> void* {
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.handleTypes = handles;
        properties.location.type = cudaMemLocationTypeDevice;
        properties.location.id = device;
        cudaMemPool_t pool = nullptr; // stays with the process
        if (cudaMemPoolCreate(&pool, &properties) != cudaSuccess) {
            (void)cudaGetLastError();
            return nullptr;
        }
        void* memory = nullptr;
        MUST(cudaMallocFromPoolAsync(&memory, kBytes, pool, nullptr));
        MUST(cudaStreamSynchronize(nullptr));
        return memory;
    });
}

Kind mapped(const std::string& name, Class is, const Mapped& what) {
    return {name, is, what.device, what.piece != kBytes, true, [what] { return what.map(); }, Mapped::unmap};
}

Kind managed(const std::string& name, int device, bool on_host, bool prefetch) {
    return {name,
            Class::kDevice,
            device,
            false,
            true,
            [device, on_host, prefetch]() -> void* {
                void* memory = nullptr;
                int able = 0;
                MUST(cudaDeviceGetAttribute(&able, cudaDevAttrConcurrentManagedAccess, device));
                if (able == 0)
                    return nullptr;
                MUST(cudaMallocManaged(&memory, kBytes, cudaMemAttachGlobal));
                std::memset(memory, 0, kBytes);
                if (prefetch) {
#if CUDART_VERSION >= 13000
                    cudaMemLocation where{};
                    where.type = on_host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
                    where.id = on_host ? 0 : device;
                    MUST(cudaMemPrefetchAsync(memory, kBytes, where, 0, nullptr));
#else
                    MUST(cudaMemPrefetchAsync(memory, kBytes, on_host ? cudaCpuDeviceId : device, nullptr));
#endif
                    MUST(cudaStreamSynchronize(nullptr));
                }
                return memory;
            },
            free_device};
}

void* pages() {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        give_up(__FILE__, __LINE__, "mmap", -1);
    std::memset(memory, 0, kBytes);
    return memory;
}

unsigned char* byte_of(void* memory, size_t offset) { return static_cast<unsigned char*>(memory) + offset; }

// Host memory of which the parts, by offset and size, are registered.
Kind registered(const std::string& name, Class is, const std::vector<std::pair<size_t, size_t>>& parts) {
    return {name,
            is,
            -1,
            is == Class::kPageable,
            true,
            [parts]() -> void* {
                void* memory = pages();
                for (const auto& [offset, bytes] : parts)
                    MUST(cudaHostRegister(byte_of(memory, offset), bytes, cudaHostRegisterDefault));
                return memory;
            },
            [parts](void* memory) {
                for (const auto& [offset, bytes] : parts)
                    MUST(cudaHostUnregister(byte_of(memory, offset)));
                munmap(memory, kBytes);
            }};
}

Kind host_allocated(const std::string& name, unsigned flags) {
    return {name,
            Class::kPinned,
            -1,
            false,
            true,
            [flags]() -> void* {
                void* memory = nullptr;
                MUST(cudaHostAlloc(&memory, kBytes, flags));
                std::memset(memory, 0, kBytes);
                return memory;
            },
            [](void* memory) { MUST(cudaFreeHost(memory)); }};
}

// Its contents are those of a file.
Kind read_only_file() {
    return {"read-only file",
            Class::kPageable,
            -1,
            false,
            false,
            []() -> void* {
                const int file = memfd_create("allocations", 0);
                if (file < 0 || ftruncate(file, kBytes) != 0)
                    give_up(__FILE__, __LINE__, "memfd", -1);
                std::vector<unsigned char> content(kBytes);
                for (size_t i = 0; i < kBytes; i++)
                    content[i] = file_byte(i);
                if (pwrite(file, content.data(), kBytes, 0) != static_cast<ssize_t>(kBytes))
                    give_up(__FILE__, __LINE__, "pwrite", -1);
                void* memory = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
                close(file);
                return memory == MAP_FAILED ? nullptr : memory;
            },
            [](void* memory) { munmap(memory, kBytes); }};
}

void add_own(std::vector<Kind>& kinds, int own) {
    constexpr size_t kPiece = 2u << 20;
    kinds.push_back(plain("cudaMalloc", Class::kExportable, own));
    kinds.push_back({"a kernel's variable", Class::kDevice, own, false, true, kernel_variable, [](void*) {}});
    kinds.push_back(ordered("cudaMallocAsync", Class::kDevice, own));
    kinds.push_back(pooled("pool", Class::kDevice, own, cudaMemHandleTypeNone));
    kinds.push_back(pooled("pool with descriptors", Class::kDevice, own, cudaMemHandleTypePosixFileDescriptor));
    kinds.push_back(mapped("cuMemMap", Class::kDevice, {.device = own, .reached_by = {own}}));
    kinds.push_back(mapped("cuMemMap with a descriptor", Class::kExportable,
                           {.device = own, .shareable = true, .reached_by = {own}}));
    kinds.push_back(
        mapped("cuMemMap in pieces", Class::kDevice, {.device = own, .piece = kPiece, .reached_by = {own}}));
    kinds.push_back(mapped("cuMemMap in pieces, with descriptors", Class::kExportable,
                           {.device = own, .shareable = true, .piece = kPiece, .reached_by = {own}}));
    kinds.push_back(managed("managed", own, false, false));
    kinds.push_back(managed("managed, on the host", own, true, true));
    kinds.push_back(managed("managed, on the device", own, false, true));
}

void add_host(std::vector<Kind>& kinds) {
    kinds.push_back(host_allocated("cudaHostAlloc", cudaHostAllocDefault));
    kinds.push_back(host_allocated("cudaHostAlloc, portable, mapped", cudaHostAllocPortable | cudaHostAllocMapped));
    kinds.push_back(host_allocated("cudaHostAlloc, write-combined", cudaHostAllocWriteCombined));
    kinds.push_back(registered("registered", Class::kPinned, {{0, kBytes}}));
    kinds.push_back(registered("registered at its beginning", Class::kPageable, {{0, kSeam}}));
    kinds.push_back(registered("registered at its end", Class::kPageable, {{kSeam, kBytes - kSeam}}));
    kinds.push_back(registered("registered twice", Class::kPageable, {{0, kSeam}, {kSeam, kBytes - kSeam}}));
    kinds.push_back(registered("pageable", Class::kPageable, {}));
    kinds.push_back(read_only_file());
}

void add_other(std::vector<Kind>& kinds, const Devices& devices) {
    const int other = devices.other;
    kinds.push_back(plain("cudaMalloc of another device", Class::kElsewhere, other));
    kinds.back().ask_reach = true;
    kinds.push_back(ordered("cudaMallocAsync of another device", Class::kElsewhere, other));
    kinds.push_back(pooled("pool of another device", Class::kElsewhere, other, cudaMemHandleTypePosixFileDescriptor));
    kinds.push_back(mapped("cuMemMap of another device", Class::kElsewhere, {.device = other, .reached_by = {other}}));
    if (devices.peer_access)
        kinds.push_back(mapped("cuMemMap of another device, reached", Class::kDevice,
                               {.device = other, .reached_by = {other, devices.own}}));
}

} // namespace

std::vector<Kind> all_kinds(const Devices& devices) {
    std::vector<Kind> kinds;
    add_own(kinds, devices.own);
    add_host(kinds);
    if (devices.other >= 0)
        add_other(kinds, devices);
    return kinds;
}

// ---- access

namespace {

struct HostWork {
    void* to;
    const void* from; // null: fill
    int value;
    size_t bytes;

    static void run(void* argument) {
        HostWork* const work = static_cast<HostWork*>(argument);
        if (work->from != nullptr)
            std::memcpy(work->to, work->from, work->bytes);
        else
            std::memset(work->to, work->value, work->bytes);
        delete work;
    }
};

void enqueue(cudaStream_t stream, const HostWork& work) {
    MUST(cudaLaunchHostFunc(stream, HostWork::run, new HostWork(work)));
}

// Streams of the other device, and events to order them with the rank's.
cudaStream_t stream_of(int device) {
    static std::map<int, cudaStream_t> streams;
    cudaStream_t& stream = streams[device];
    if (stream == nullptr) {
        const Current current(device);
        MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    return stream;
}

void order(cudaStream_t first, int its_device, cudaStream_t second) {
    const Current current(its_device);
    cudaEvent_t event = nullptr;
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaEventRecord(event, first));
    MUST(cudaStreamWaitEvent(second, event, 0));
    MUST(cudaEventDestroy(event));
}

} // namespace

void Memory::in_order(cudaStream_t stream, const std::function<void(cudaStream_t)>& work) const {
    if (kind_.device == devices_.own)
        return work(stream);
    const cudaStream_t there = stream_of(kind_.device);
    order(stream, devices_.own, there);
    {
        const Current current(kind_.device);
        work(there);
    }
    order(there, kind_.device, stream);
}

bool Memory::reached() const {
    cudaPointerAttributes attributes{};
    MUST(cudaPointerGetAttributes(&attributes, data_)); // the rank's device is current
    return attributes.devicePointer != nullptr;
}

void Memory::write(size_t offset, const void* from, size_t bytes, cudaStream_t stream) const {
    if (kind_.device < 0)
        return enqueue(stream, {at(offset), from, 0, bytes});
    in_order(stream, [&](cudaStream_t in) { MUST(cudaMemcpyAsync(at(offset), from, bytes, cudaMemcpyDefault, in)); });
}

void Memory::read(size_t offset, void* to, size_t bytes, cudaStream_t stream) const {
    if (kind_.device < 0)
        return enqueue(stream, {to, at(offset), 0, bytes});
    in_order(stream, [&](cudaStream_t in) { MUST(cudaMemcpyAsync(to, at(offset), bytes, cudaMemcpyDefault, in)); });
}

void Memory::fill(size_t offset, int value, size_t bytes, cudaStream_t stream) const {
    if (kind_.device < 0)
        return enqueue(stream, {at(offset), nullptr, value, bytes});
    in_order(stream, [&](cudaStream_t in) { MUST(cudaMemsetAsync(at(offset), value, bytes, in)); });
}

void Memory::write_now(size_t offset, const void* from, size_t bytes) const {
    if (kind_.device < 0) {
        std::memcpy(at(offset), from, bytes);
        return;
    }
    const Current current(kind_.device);
    MUST(cudaMemcpy(at(offset), from, bytes, cudaMemcpyDefault));
}

void Memory::read_now(size_t offset, void* to, size_t bytes) const {
    if (kind_.device < 0) {
        std::memcpy(to, at(offset), bytes);
        return;
    }
    const Current current(kind_.device);
    MUST(cudaMemcpy(to, at(offset), bytes, cudaMemcpyDefault));
}

void Memory::fill_now(size_t offset, int value, size_t bytes) const {
    if (kind_.device < 0) {
        std::memset(at(offset), value, bytes);
        return;
    }
    const Current current(kind_.device);
    MUST(cudaMemset(at(offset), value, bytes));
    MUST(cudaDeviceSynchronize());
}

} // namespace allocations
