// A CUDA driver of a few functions that answer what a test has set: for the logic around CUDA, where there is no GPU.
// What it does not have is null, so that a test that strays into it fails at once.
#pragma once

#include "device/cuda/driver.hpp"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>

namespace gpurun::test {

struct FakeMemory {
    size_t size = 0;
    unsigned type = CU_MEMORYTYPE_DEVICE;
    int ordinal = 0;
    bool managed = false;
    bool exportable = true;
    bool pool = false;
    uint64_t id = 0;
    // Memory of cuMemMap(): a piece of a reserved range, and who has which access to it.
    uintptr_t range_start = 0;
    size_t range_size = 0;
    std::map<int, unsigned> granted;
    unsigned handle_types = 0;
    bool device_reaches = true; // kernels of the rank's device, by the same address
};

struct FakeLaunch {
    CUfunction kernel = nullptr;
    unsigned blocks = 0;
    unsigned threads = 0;
    unsigned other_sides = 0; // of grid and block together
    unsigned shared_bytes = 0;
    CUstream stream = nullptr;
    std::vector<unsigned char> arguments;
    bool early = false; // it may start before what is before it has ended
};

// Graphs, as far as whoever waits for their end can tell.
struct FakeGraphs {
    CUgraph captured = nullptr; // what a captured stream is captured into
    CUresult end = CUDA_SUCCESS;
    CUresult instantiate = CUDA_SUCCESS;
    CUresult retain = CUDA_SUCCESS;
    int graphs_destroyed = 0;
    int executables_destroyed = 0;
    int retained = 0;
    CUhostFn ends = nullptr; // of the user object
    void* argument = nullptr;
    std::optional<CUstreamCaptureMode> mode_of_begin;
};

// Memory that is mapped from descriptors.
struct FakeMapping {
    std::map<ino_t, uintptr_t> exported;   // by the file of its descriptor: where it is mapped in the exporter
    std::map<uintptr_t, size_t> reserved;  // ranges
    std::map<uintptr_t, uintptr_t> mapped; // here: what the exporter has there
    std::set<uintptr_t> accessible;        // ranges
    int handles = 0;                       // that are not released
    CUresult next_map = CUDA_SUCCESS;
};

// What the fake driver's functions see; one test at a time.
struct FakeState {
    std::map<uintptr_t, FakeMemory> memory; // by start
    unsigned questions = 0;                 // about addresses
    CUcontext current = nullptr;
    int switches = 0;
    int devices = 2;
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL; // of the calling thread
    std::optional<CUstreamCaptureMode> mode_of_allocation;            // the thread's, as the last one found it
    CUresult next_allocation = CUDA_SUCCESS;
    uintptr_t next_address = 0;
    FakeMapping mapping;
    std::vector<FakeLaunch> launches;
    CUresult next_launch = CUDA_SUCCESS;
    uintptr_t host_distance = 0;    // from a host address to the device's for the same memory
    size_t argument_bytes = 0;      // of the kernel that is launched next
    std::vector<std::string> calls; // that enqueue something: "name context stream"
    std::set<uintptr_t> busy_events;
    uintptr_t next_handle = 0x50000;
    unsigned context_flags = 0;
    unsigned stream_flags = 0; // of the one made last
    int stream_priority = 0;
    FakeGraphs graphs;
};

inline FakeState& fake() {
    static FakeState state;
    return state;
}

// What cuMemHostRegister() has registered last, for a thread that acts as a kernel.
inline std::atomic<void*> last_registered{nullptr};

template <typename T>
void answer(void* place, T value) {
    std::memcpy(place, &value, sizeof(value));
}

// The fake contexts of devices 0 and 1.
inline CUcontext context_of(CUdevice device) { return reinterpret_cast<CUcontext>(uintptr_t{0x10000} << device); }

inline unsigned access_of(const FakeMemory& memory) {
    if (!memory.granted.empty())
        return memory.granted.count(0) != 0 ? memory.granted.at(0) : 0;
    return memory.device_reaches ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE : 0;
}

inline void answer_attribute(CUpointer_attribute question, void* place, uintptr_t start, const FakeMemory& memory,
                             CUdeviceptr asked) {
    switch (question) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return answer(place, memory.type);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return answer(place, memory.range_size ? memory.range_start : start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return answer(place, memory.range_size ? memory.range_size : memory.size);
    case CU_POINTER_ATTRIBUTE_MAPPED: return answer(place, 1);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return answer(place, start);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return answer(place, memory.size);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return answer(place, access_of(memory));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return answer(place, memory.device_reaches ? static_cast<uintptr_t>(asked) : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return answer(place, memory.id);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return answer(place, memory.handle_types);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return answer(place, memory.managed);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return answer(place, memory.exportable);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return answer(place, memory.pool ? uintptr_t{0x1000} : uintptr_t{0});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return answer(place, memory.ordinal);
    default: return;
    }
}

inline CUresult get_attributes(unsigned count, CUpointer_attribute* questions, void** places, CUdeviceptr pointer) {
    fake().questions += count;
    for (const auto& [start, memory] : fake().memory)
        if (pointer >= start && pointer < start + memory.size)
            for (unsigned i = 0; i < count; ++i)
                answer_attribute(questions[i], places[i], start, memory, pointer);
    return CUDA_SUCCESS;
}

inline CUresult get_access(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
    for (const auto& [start, memory] : fake().memory)
        if (pointer >= start && pointer < start + memory.size && !memory.granted.empty()) {
            const auto found = memory.granted.find(location->id);
            return *flags = found == memory.granted.end() ? 0 : found->second, CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

inline void note_call(const char* name, const void* stream) {
    char text[96];
    std::snprintf(text, sizeof text, "%s %p %p", name, static_cast<void*>(fake().current), stream);
    fake().calls.emplace_back(text);
}

template <typename Handle>
CUresult make_handle(Handle* handle) {
    *handle = reinterpret_cast<Handle>(fake().next_handle += 0x10);
    return CUDA_SUCCESS;
}

// What copies on other devices take.
inline void add_streams(device::cuda::Driver& driver) {
    driver.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice device) {
        return *context = context_of(device), CUDA_SUCCESS;
    };
    driver.cuDevicePrimaryCtxRelease = [](CUdevice) { return CUDA_SUCCESS; };
    driver.cuDevicePrimaryCtxGetState = [](CUdevice, unsigned* flags, int* active) {
        *flags = 0;
        *active = 1;
        return CUDA_SUCCESS;
    };
    driver.cuCtxGetFlags = [](unsigned* flags) { return *flags = fake().context_flags, CUDA_SUCCESS; };
    driver.cuStreamQuery = [](CUstream) { return CUDA_SUCCESS; };
    driver.cuCtxSetFlags = [](unsigned flags) { return fake().context_flags = flags, CUDA_SUCCESS; };
    driver.cuStreamCreate = [](CUstream* stream, unsigned) { return make_handle(stream); };
    driver.cuStreamCreateWithPriority = [](CUstream* stream, unsigned flags, int priority) {
        fake().stream_flags = flags;
        fake().stream_priority = priority;
        return make_handle(stream);
    };
    driver.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
    driver.cuStreamDestroy = [](CUstream) { return CUDA_SUCCESS; };
    driver.cuEventCreate = [](CUevent* event, unsigned) { return make_handle(event); };
    driver.cuEventDestroy = [](CUevent) { return CUDA_SUCCESS; };
    driver.cuEventQuery = [](CUevent event) {
        const bool busy = fake().busy_events.count(reinterpret_cast<uintptr_t>(event)) != 0;
        return busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    };
    driver.cuEventRecord = [](CUevent event, CUstream stream) {
        fake().busy_events.insert(reinterpret_cast<uintptr_t>(event));
        return note_call("record", stream), CUDA_SUCCESS;
    };
    driver.cuStreamWaitEvent = [](CUstream stream, CUevent, unsigned) {
        return note_call("wait", stream), CUDA_SUCCESS;
    };
    driver.cuMemcpyAsync = [](CUdeviceptr, CUdeviceptr, size_t, CUstream stream) {
        return note_call("copy", stream), CUDA_SUCCESS;
    };
    driver.cuMemsetD8Async = [](CUdeviceptr, unsigned char, size_t, CUstream stream) {
        return note_call("fill", stream), CUDA_SUCCESS;
    };
}

inline CUresult allocate(CUdeviceptr* pointer, size_t bytes) {
    fake().mode_of_allocation = fake().capture_mode;
    if (fake().next_allocation != CUDA_SUCCESS)
        return fake().next_allocation;
    *pointer = fake().next_address;
    static uint64_t id = 1000;
    fake().memory[fake().next_address] = FakeMemory{.size = bytes, .id = ++id};
    return CUDA_SUCCESS;
}

inline CUresult launch(const CUlaunchConfig* config, CUfunction kernel, void** arguments, void**) {
    if (fake().next_launch != CUDA_SUCCESS)
        return fake().next_launch;
    const auto* first = static_cast<const unsigned char*>(arguments[0]);
    fake().launches.push_back({kernel,
                               config->gridDimX,
                               config->blockDimX,
                               config->gridDimY * config->gridDimZ * config->blockDimY * config->blockDimZ,
                               config->sharedMemBytes,
                               config->hStream,
                               {first, first + fake().argument_bytes},
                               config->numAttrs == 1 &&
                                   config->attrs[0].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                                   config->attrs[0].value.programmaticStreamSerializationAllowed != 0});
    return CUDA_SUCCESS;
}

// The descriptor of a piece is that of an empty file of its own.
inline CUresult export_piece(void* descriptor, CUmemGenericAllocationHandle handle) {
    const int fd = ::memfd_create("piece", MFD_CLOEXEC);
    struct stat file {};
    ::fstat(fd, &file);
    fake().mapping.exported[file.st_ino] = handle;
    return answer(descriptor, fd), CUDA_SUCCESS;
}

inline CUresult import_piece(CUmemGenericAllocationHandle* handle, const void* descriptor) {
    struct stat file {};
    if (::fstat(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)), &file) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    ++fake().mapping.handles;
    return *handle = fake().mapping.exported.at(file.st_ino), CUDA_SUCCESS;
}

inline void add_mapping(device::cuda::Driver& driver) {
    driver.cuMemRetainAllocationHandle = [](CUmemGenericAllocationHandle* handle, void* address) {
        for (const auto& [start, memory] : fake().memory)
            if (const auto at = reinterpret_cast<uintptr_t>(address); at >= start && at < start + memory.size)
                return ++fake().mapping.handles, *handle = start, CUDA_SUCCESS;
        return CUDA_ERROR_INVALID_VALUE;
    };
    driver.cuMemExportToShareableHandle = [](void* descriptor, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType,
                                             unsigned long long) { return export_piece(descriptor, handle); };
    driver.cuMemImportFromShareableHandle = [](CUmemGenericAllocationHandle* handle, void* descriptor,
                                               CUmemAllocationHandleType) { return import_piece(handle, descriptor); };
    driver.cuMemRelease = [](CUmemGenericAllocationHandle) { return --fake().mapping.handles, CUDA_SUCCESS; };
    driver.cuMemAddressReserve = [](CUdeviceptr* range, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
        *range = fake().next_address;
        return fake().mapping.reserved[fake().next_address] = bytes, CUDA_SUCCESS;
    };
    driver.cuMemAddressFree = [](CUdeviceptr range, size_t bytes) {
        const auto found = fake().mapping.reserved.find(range);
        if (found == fake().mapping.reserved.end() || found->second != bytes)
            return CUDA_ERROR_INVALID_VALUE;
        return fake().mapping.reserved.erase(found), CUDA_SUCCESS;
    };
    driver.cuMemMap = [](CUdeviceptr at, size_t, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
        if (const CUresult failed = std::exchange(fake().mapping.next_map, CUDA_SUCCESS); failed != CUDA_SUCCESS)
            return failed;
        return fake().mapping.mapped[at] = handle, CUDA_SUCCESS;
    };
    driver.cuMemUnmap = [](CUdeviceptr at, size_t bytes) {
        auto& mapped = fake().mapping.mapped;
        mapped.erase(mapped.lower_bound(at), mapped.lower_bound(at + bytes));
        return CUDA_SUCCESS;
    };
    driver.cuMemSetAccess = [](CUdeviceptr range, size_t, const CUmemAccessDesc* access, size_t) {
        if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            fake().mapping.accessible.insert(range);
        return CUDA_SUCCESS;
    };
}

inline void add_graphs(device::cuda::Driver& driver) {
    driver.cuStreamBeginCapture = [](CUstream, CUstreamCaptureMode mode) {
        fake().graphs.mode_of_begin = mode;
        fake().capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        return CUDA_SUCCESS;
    };
    driver.cuStreamEndCapture = [](CUstream, CUgraph* graph) {
        fake().capturing = CU_STREAM_CAPTURE_STATUS_NONE;
        *graph = fake().graphs.end == CUDA_SUCCESS ? fake().graphs.captured : nullptr;
        return fake().graphs.end;
    };
    driver.cuStreamGetCaptureInfo = [](CUstream, CUstreamCaptureStatus* status, cuuint64_t* number, CUgraph* graph,
                                       const CUgraphNode**, size_t*) {
        *status = fake().capturing;
        *number = 1;
        *graph = fake().graphs.captured;
        return CUDA_SUCCESS;
    };
    driver.cuGraphInstantiateWithFlags = [](CUgraphExec* executable, CUgraph graph, unsigned long long) {
        *executable = reinterpret_cast<CUgraphExec>(reinterpret_cast<uintptr_t>(graph) + 1);
        return fake().graphs.instantiate;
    };
    driver.cuGraphDestroy = [](CUgraph) { return ++fake().graphs.graphs_destroyed, CUDA_SUCCESS; };
    driver.cuGraphLaunch = [](CUgraphExec, CUstream) { return CUDA_SUCCESS; };
    driver.cuGraphExecDestroy = [](CUgraphExec) { return ++fake().graphs.executables_destroyed, CUDA_SUCCESS; };
    driver.cuUserObjectCreate = [](CUuserObject* object, void* argument, CUhostFn ends, unsigned, unsigned) {
        *object = reinterpret_cast<CUuserObject>(0x900);
        fake().graphs.ends = ends;
        fake().graphs.argument = argument;
        return CUDA_SUCCESS;
    };
    driver.cuUserObjectRelease = [](CUuserObject, unsigned) { // the last one
        fake().graphs.ends(fake().graphs.argument);
        return CUDA_SUCCESS;
    };
    driver.cuGraphRetainUserObject = [](CUgraph, CUuserObject, unsigned, unsigned flags) {
        if (fake().graphs.retain == CUDA_SUCCESS && flags == CU_GRAPH_USER_OBJECT_MOVE)
            ++fake().graphs.retained;
        return fake().graphs.retain;
    };
}

inline device::cuda::Driver fake_driver() {
    device::cuda::Driver driver;
    driver.cuGetErrorName = [](CUresult, const char** name) { return *name = "CUDA_ERROR_TEST", CUDA_SUCCESS; };
    driver.cuGetErrorString = [](CUresult, const char** text) { return *text = "a test's", CUDA_SUCCESS; };
    driver.cuCtxGetCurrent = [](CUcontext* context) { return *context = fake().current, CUDA_SUCCESS; };
    driver.cuCtxSetCurrent = [](CUcontext context) {
        fake().current = context;
        ++fake().switches;
        return CUDA_SUCCESS;
    };
    driver.cuDeviceGetCount = [](int* count) { return *count = fake().devices, CUDA_SUCCESS; };
    driver.cuDeviceGet = [](CUdevice* device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; };
    driver.cuDeviceGetUuid = [](CUuuid* uuid, CUdevice device) {
        std::memset(uuid->bytes, 0x10 + device, sizeof(uuid->bytes));
        return CUDA_SUCCESS;
    };
    driver.cuDeviceCanAccessPeer = [](int* reachable, CUdevice, CUdevice) { return *reachable = 0, CUDA_SUCCESS; };
    driver.cuMemGetInfo = [](size_t* left, size_t* total) { return *left = 100, *total = 1000, CUDA_SUCCESS; };
    driver.cuPointerGetAttributes = get_attributes;
    driver.cuPointerSetAttribute = [](const void*, CUpointer_attribute, CUdeviceptr) { return CUDA_SUCCESS; };
    driver.cuMemGetAccess = get_access;
    driver.cuMemAlloc = allocate;
    driver.cuMemAllocAsync = [](CUdeviceptr* pointer, size_t bytes, CUstream) { return allocate(pointer, bytes); };
    driver.cuMemHostAlloc = [](void** pointer, size_t bytes, unsigned) {
        CUdeviceptr allocated = 0;
        const CUresult result = allocate(&allocated, bytes);
        fake().memory[allocated].type = CU_MEMORYTYPE_HOST;
        return *pointer = reinterpret_cast<void*>(allocated), result;
    };
    driver.cuMemFreeHost = [](void* pointer) {
        return fake().memory.erase(reinterpret_cast<uintptr_t>(pointer)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
    driver.cuMemHostRegister = [](void* memory, size_t bytes, unsigned) {
        fake().next_address = reinterpret_cast<uintptr_t>(memory);
        CUdeviceptr registered = 0;
        const CUresult result = allocate(&registered, bytes);
        if (result == CUDA_SUCCESS)
            fake().memory[registered].type = CU_MEMORYTYPE_HOST;
        last_registered = memory;
        return result;
    };
    driver.cuMemHostUnregister = [](void* memory) {
        return fake().memory.erase(reinterpret_cast<uintptr_t>(memory)) ? CUDA_SUCCESS
                                                                        : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    };
    driver.cuMemFree = [](CUdeviceptr pointer) {
        return fake().memory.erase(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
    driver.cuLaunchKernelEx = launch;
    add_graphs(driver);
    driver.cuMemHostGetDevicePointer = [](CUdeviceptr* device, void* host, unsigned) {
        *device = reinterpret_cast<uintptr_t>(host) + fake().host_distance;
        return CUDA_SUCCESS;
    };
    driver.cuStreamGetCtx = [](CUstream stream, CUcontext* context) {
        return *context = reinterpret_cast<CUcontext>(reinterpret_cast<uintptr_t>(stream) & 0xff0000), CUDA_SUCCESS;
    };
    driver.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
        return *status = fake().capturing, CUDA_SUCCESS;
    };
    driver.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
        std::swap(*mode, fake().capture_mode);
        return CUDA_SUCCESS;
    };
    add_streams(driver);
    add_mapping(driver);
    return driver;
}

} // namespace gpurun::test
