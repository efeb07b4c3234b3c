// An NVML that has as many GPUs as FAKE_GPUS says: gpurun loads it where LD_LIBRARY_PATH finds it first, and then
// treats ranks as it does on a machine with GPUs. The ranks of such a job must not touch CUDA.
//
// FAKE_MIG=GPU:COUNT puts a GPU into MIG mode, with so many instances. FAKE_LINKS=switch:N gives each GPU N links to a
// switch, FAKE_LINKS=pairs:N the GPUs 0 and 1, 2 and 3, ... N links to each other. FAKE_NO_PEERS=GPU takes peer access
// from one. FAKE_COMPUTE_MAJOR is the generation of all, 9 unless it is set. With FAKE_NVML_HANGS no call comes to an
// end.
#include "platform/nvml.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>
#include <unistd.h>

using gpurun::platform::NvmlPciInfo;

namespace {

constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr unsigned kInstances = 100; // devices from here on are instances, ten for each GPU

// A device is its index, plus one so that none is null.
unsigned index_of(void* device) { return static_cast<unsigned>(reinterpret_cast<std::size_t>(device) - 1); }
void* device_of(unsigned index) { return reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1); }
bool is_instance(void* device) { return index_of(device) >= kInstances; }
unsigned gpu_of(void* device) {
    return is_instance(device) ? index_of(device) / 10 - kInstances / 10 : index_of(device);
}

unsigned gpus() {
    const char* wanted = std::getenv("FAKE_GPUS");
    return wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : 0;
}

// 0: not in MIG mode, else one more than there are instances.
unsigned instances_of(unsigned gpu) {
    const char* wanted = std::getenv("FAKE_MIG");
    unsigned number = 0;
    unsigned count = 0;
    return wanted != nullptr && std::sscanf(wanted, "%u:%u", &number, &count) == 2 && number == gpu ? count + 1 : 0;
}

// "switch" or "pairs", and how many.
unsigned links(const char* kind) {
    const char* wanted = std::getenv("FAKE_LINKS");
    const std::size_t length = std::strlen(kind);
    if (wanted == nullptr || std::strncmp(wanted, kind, length) != 0 || wanted[length] != ':')
        return 0;
    return static_cast<unsigned>(std::atoi(wanted + length + 1));
}

void put_bus_id(NvmlPciInfo* info, unsigned gpu) {
    std::memset(info, 0, sizeof *info);
    std::snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:00.0", 0u, gpu + 1);
}

} // namespace

extern "C" {

int nvmlInit_v2() {
    while (std::getenv("FAKE_NVML_HANGS") != nullptr)
        ::pause();
    if (std::getenv("FAKE_NVML_THREAD") != nullptr) {
        ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NODELETE); // it stays
        std::thread([] { ::pause(); }).detach();
    }
    return 0;
}
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "a test's"; }

int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = gpus();
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    *device = device_of(index);
    return 0;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
    const char letter = static_cast<char>('a' + static_cast<char>(gpu_of(device) % 26));
    if (is_instance(device))
        std::snprintf(text, size, "MIG-%c%u", letter, index_of(device) % 10);
    else
        std::snprintf(text, size, "GPU-%c", letter);
    return 0;
}

int nvmlDeviceGetName(void* device, char* text, unsigned size) {
    std::snprintf(text, size, is_instance(device) ? "fake MIG 1g" : "fake");
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
    const char* wanted = std::getenv("FAKE_COMPUTE_MAJOR");
    *major = wanted != nullptr ? std::atoi(wanted) : 9;
    *minor = 0;
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void* device, NvmlPciInfo* info) {
    if (is_instance(device))
        return kNotSupported;
    put_bus_id(info, index_of(device));
    return 0;
}

int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
    *current = *pending = instances_of(index_of(device)) > 0 ? 1 : 0;
    return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
    *count = 7;
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** instance) {
    const unsigned gpu = index_of(device);
    if (index == 0 || index >= instances_of(gpu)) // the first place is empty, as it may be
        return kNotFound;
    *instance = device_of(kInstances + 10 * gpu + index);
    return 0;
}

int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
    const bool paired = (index_of(device) ^ 1u) < gpus() && link < links("pairs");
    *active = link < links("switch") || paired ? 1 : 0;
    return link < 18 ? 0 : kNotSupported;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, NvmlPciInfo* info) {
    put_bus_id(info, links("switch") > 0 ? 200 : index_of(device) ^ 1u);
    return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, unsigned* type) {
    *type = links("switch") > 0 ? 2 : 0;
    return 0;
}

int nvmlDeviceGetP2PStatus(void* a, void* b, unsigned, unsigned* status) {
    const char* lonely = std::getenv("FAKE_NO_PEERS");
    const unsigned number = lonely != nullptr ? static_cast<unsigned>(std::atoi(lonely)) : 99;
    *status = index_of(a) == number || index_of(b) == number ? 1 : 0;
    return 0;
}
}
