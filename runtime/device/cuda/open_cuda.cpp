// Where CUDA begins: whether there is a GPU, and the Device of one.
//
// Neither needs libcuda.so to be installed: the driver is looked up when it is first asked for, so one build runs
// on machines with and without a GPU.
#include "base/format.hpp"
#include "base/log.hpp"
#include "device/backend.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/selection.hpp"
#include "platform/clock.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cctype>

namespace gpurun::device::cuda {

namespace {

base::Error runtime_error(const char* call, cudaError_t result) {
    (void)cudaGetLastError();
    const char* advice = "";
    if (result == cudaErrorInitializationError)
        advice = "; CUDA cannot be used after fork() in a process that has used it: start ranks with gpurun or exec";
    if (result == cudaErrorInsufficientDriver)
        advice = "; the NVIDIA driver is missing or older than this build's CUDA (nvidia-smi shows it)";
    return base::error(base::Status::kDevice, "{}: {}: {}{}", call, cudaGetErrorName(result),
                       cudaGetErrorString(result), advice);
}

// Makes the primary context of `device`, current for the calling thread.
base::Result<CUcontext> primary_context(const Driver& driver, CUdevice device) {
    if (cudaError_t result = cudaSetDevice(device); result != cudaSuccess)
        return runtime_error("cudaSetDevice", result);
    // cudaSetDevice() makes the context only since CUDA 12; this does in all.
    if (cudaError_t result = cudaFree(nullptr); result != cudaSuccess)
        return runtime_error("cudaFree", result);
    CUcontext context = nullptr;
    GPURUN_TRY(driver.check(driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent"));
    if (context == nullptr)
        return base::error(base::Status::kDevice, "CUDA made no context on device {}", device);
    return context;
}

base::Result<int> attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
    int value = 0;
    GPURUN_TRY(driver.check(driver.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute"));
    return value;
}

base::Result<Info> describe_device(const Driver& driver, CUdevice device) {
    Info info;
    char name[96] = {};
    GPURUN_TRY(driver.check(driver.cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName"));
    info.name = name;
    char bus[32] = {};
    GPURUN_TRY(driver.check(driver.cuDeviceGetPCIBusId(bus, sizeof(bus), device), "cuDeviceGetPCIBusId"));
    info.pci_bus_id = bus;
    std::transform(info.pci_bus_id.begin(), info.pci_bus_id.end(), info.pci_bus_id.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    GPURUN_TRY(driver.check(driver.cuDeviceTotalMem(&info.memory_bytes, device), "cuDeviceTotalMem"));
    GPURUN_ASSIGN(const Uuid uuid, device_uuid(driver, device));
    info.identity = Identity{Kind::kCuda, static_cast<uint32_t>(device), uuid};
    GPURUN_ASSIGN(const int processors, attribute(driver, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    // A block that spins keeps its processor from every kernel that wants another share of it as shared memory, or all
    // of it, however much is free there (seen: a kernel of one thread does not run beside 132 blocks of 512 that spin).
    // So what spins leaves a quarter of the processors alone.
    info.spinning_blocks = static_cast<uint32_t>(std::max(processors * 3 / 4, 1));
    // Launches take 2.3 us and more, copies 2.4 (Xeons of H200, 2026-11-28). What takes less may go unnoticed: memsets
    // (0.8), host functions (0.35), waiting for an event (0.15). A program that enqueues nothing comes back within 0.2
    // to 0.5 us, on a busy host 1.
    info.shortest_enqueue_ns = 1000;
    info.releases_events = false; // see CudaDevice::release_peer()
    return info;
}

// Whether kernels may start early, also in graphs: from Hopper and CUDA 12.3 on.
base::Result<bool> early_kernels(const Driver& driver, CUdevice device) {
    int version = 0;
    GPURUN_TRY(driver.check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion"));
    GPURUN_ASSIGN(const int major, attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
    return major >= 9 && version >= 12030;
}

// What the program calls a synchronous copy is over, from now on, when its call returns, and those that have returned
// are over: they are in the default stream. Here, and not once memory is used that needs it: a capture in any thread
// would fail by that. REQUIRES that the device's context is current.
void settle_copies(const Driver& driver) {
    constexpr int64_t kLongestNs = 200'000'000;
    complete_copies(driver);
    const int64_t begin_ns = platform::now_ns();
    while (driver.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY)
        if (platform::now_ns() - begin_ns > kLongestNs) {
            base::log(base::LogLevel::kWarn, "a copy that was made before gpurun_init() may end late: the default "
                                             "stream does not come to its end");
            return;
        }
}

base::Result<Facts> gather_facts(const Driver& driver, CUdevice device) {
    Facts facts;
    facts.device = device;
    GPURUN_ASSIGN(facts.info, describe_device(driver, device));
    // CUDA has no attribute for it; the names of instances end in their profile: "NVIDIA H200 MIG 1g.18gb".
    facts.mig = facts.info.name.find(" MIG ") != std::string::npos;
    facts.info.uuid = format_uuid(facts.mig ? "MIG" : "GPU", facts.info.identity.uuid);
    GPURUN_ASSIGN(facts.host_pointers,
                  attribute(driver, device, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM));
    GPURUN_ASSIGN(facts.counters, attribute(driver, device, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS));
    GPURUN_ASSIGN(facts.ordered_memory, attribute(driver, device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED));
    GPURUN_ASSIGN(facts.early_kernels, early_kernels(driver, device));
    GPURUN_ASSIGN(facts.context, primary_context(driver, device));
    int least_urgent = 0;
    GPURUN_TRY(driver.check(driver.cuCtxGetStreamPriorityRange(&least_urgent, &facts.urgent_priority),
                            "cuCtxGetStreamPriorityRange"));
    return facts;
}

// Leaves no error behind where there is no driver.
bool present() {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess)
        return count > 0;
    (void)cudaGetLastError();
    return false;
}

base::Result<std::unique_ptr<Device>> open_selected(const Options& options) {
    int count = 0;
    if (cudaError_t result = cudaGetDeviceCount(&count); result != cudaSuccess)
        return runtime_error("cudaGetDeviceCount", result);
    GPURUN_ASSIGN(const Driver driver, Driver::load());
    GPURUN_TRY(driver.check(driver.cuInit(0), "cuInit"));
    GPURUN_ASSIGN(const CUdevice device, select_device(driver, options.selector, options.auto_device));
    GPURUN_ASSIGN(Facts facts, gather_facts(driver, device));
    settle_copies(driver);
    GPURUN_ASSIGN(const Kernels kernels, Kernels::load(driver));
    return std::unique_ptr<Device>(std::make_unique<CudaDevice>(driver, std::move(facts), kernels));
}

base::Result<std::unique_ptr<Device>> open(const Options& options, std::string_view) {
    auto opened = open_selected(options);
    if (opened || opened.error().detail.find(options.selector) != std::string::npos)
        return opened;
    // What failed deep in the driver does not know which device it was asked for; the user must.
    base::Error error = std::move(opened).error();
    error.detail = base::format("{} cannot be used: {}", options.selector, error.detail);
    return error;
}

} // namespace

extern const Backend kBackend{"cuda", "cuda:UUID, cuda:ORDINAL", present, open};

} // namespace gpurun::device::cuda
