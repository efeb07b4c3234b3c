// An NVML that has as many GPUs as FAKE_GPUS says: gpurun loads it where LD_LIBRARY_PATH finds it first, and then
// treats ranks as it does on a machine with GPUs. The ranks of such a job must not touch CUDA.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct PciInfo { // nvmlPciInfo_t, version 3
    char bus_id_legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned pci_device_id;
    unsigned pci_subsystem_id;
    char bus_id[32];
};

// A device is its index, plus one so that none is null.
unsigned index_of(void* device) { return static_cast<unsigned>(reinterpret_cast<std::size_t>(device) - 1); }

} // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "a test's"; }

int nvmlDeviceGetCount_v2(unsigned* count) {
    const char* wanted = std::getenv("FAKE_GPUS");
    *count = wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : 0;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    *device = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
    return 0;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
    std::snprintf(text, size, "GPU-%c", 'a' + static_cast<char>(index_of(device) % 26));
    return 0;
}

int nvmlDeviceGetName(void*, char* text, unsigned size) {
    std::snprintf(text, size, "fake");
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
    std::memset(info, 0, sizeof *info);
    std::snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:00.0", 0u, index_of(device) + 1);
    return 0;
}
}
