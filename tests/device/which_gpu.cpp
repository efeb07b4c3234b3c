// Prints where a rank is, in one line: its rank, how many GPUs CUDA shows it, the UUID of the one that a program that
// was not written for gpurun selects, the UUID of the one that gpurun_init() selects, and the CPUs that it may use.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime_api.h>
#include <fstream>
#include <gpurun/gpurun.h>
#include <string>

namespace {

std::string uuid_of(int device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess)
        return "none";
    std::string text = "GPU";
    for (int i = 0; i < 16; ++i) {
        char digits[4];
        const bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        std::snprintf(digits, sizeof digits, "%s%02x", dash ? "-" : "",
                      static_cast<unsigned>(static_cast<unsigned char>(properties.uuid.bytes[i])));
        text += digits;
    }
    return text;
}

std::string cpus() {
    const std::string name = "Cpus_allowed_list:";
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.compare(0, name.size(), name) == 0)
            return line.substr(line.find_last_of(" \t") + 1);
    return "unknown";
}

} // namespace

int main() {
    int count = 0;
    const char* local_rank = std::getenv("LOCAL_RANK");
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0 || local_rank == nullptr)
        return 1;
    const std::string ported = uuid_of(std::atoi(local_rank) % count);
    gpurun_device_info info{};
    info.size = sizeof info;
    if (gpurun_init() != GPURUN_OK || gpurun_device(&info) != GPURUN_OK)
        return 1;
    std::printf("%s %d %s %s %s\n", local_rank, count, ported.c_str(), info.uuid, cpus().c_str());
    return gpurun_finalize() == GPURUN_OK ? 0 : 1;
}
