#include "machine.hpp"

#include "call.hpp"

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/utsname.h>
#include <unistd.h>

namespace gpurun::bench {

namespace {

constexpr int kMachineTag = 4;
constexpr size_t kTextBytes = 512;

// What changes how messages move, or how fast.
constexpr const char* kSettings[] = {"GPURUN_PATH",
                                     "GPURUN_FENCE",
                                     "GPURUN_EAGER_BYTES",
                                     "GPURUN_DEVICE_EAGER_BYTES",
                                     "GPURUN_RELAY_CHUNK_BYTES",
                                     "GPURUN_SPIN_US",
                                     "GPURUN_PROGRESS",
                                     "GPURUN_EMULATED_PEER_ACCESS",
                                     "GPURUN_EMULATED_SEED",
                                     "GPURUN_MPS",
                                     "CUDA_MPS_PIPE_DIRECTORY"};

void tell(int rank, const void* data, size_t bytes) {
    CALL(gpurun_send(data, bytes, GPURUN_BYTE, rank, kMachineTag, GPURUN_COMM_WORLD, GPURUN_HOST));
}

void hear(int rank, void* data, size_t bytes) {
    CALL(gpurun_recv(data, bytes, GPURUN_BYTE, rank, kMachineTag, GPURUN_COMM_WORLD, GPURUN_HOST, nullptr));
}

void tell_all(void* data, size_t bytes) {
    CALL(gpurun_bcast(data, bytes, GPURUN_BYTE, 0, GPURUN_COMM_WORLD, GPURUN_HOST));
}

std::string date() {
    char text[32] = "?";
    const std::time_t now = std::time(nullptr);
    std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
    return text;
}

} // namespace

std::vector<gpurun_device_info> all_devices(const Pair& pair) {
    std::vector<gpurun_device_info> devices(static_cast<size_t>(pair.size()));
    gpurun_device_info& mine = devices[static_cast<size_t>(pair.rank())];
    mine.size = sizeof(mine);
    CALL(gpurun_device(&mine));
    if (pair.rank() != 0)
        tell(0, &mine, sizeof(mine));
    else
        for (int rank = 1; rank < pair.size(); ++rank)
            hear(rank, &devices[static_cast<size_t>(rank)], sizeof(mine));
    tell_all(devices.data(), devices.size() * sizeof(mine));
    return devices;
}

std::vector<Samples> all_samples(const Pair& pair, const Samples& mine) {
    std::vector<Samples> pairs;
    if (pair.rank() != 0) {
        for (const auto& samples : mine) {
            const uint64_t count = samples.size();
            tell(0, &count, sizeof(count));
            tell(0, samples.data(), count * sizeof(double));
        }
        return pairs;
    }
    pairs.resize(static_cast<size_t>(pair.size() / 2));
    pairs[0] = mine;
    for (int rank = 1; rank < pair.size() / 2 * 2; ++rank)
        for (auto& samples : pairs[static_cast<size_t>(rank / 2)]) {
            uint64_t count = 0;
            hear(rank, &count, sizeof(count));
            const size_t had = samples.size();
            samples.resize(had + count);
            hear(rank, samples.data() + had, count * sizeof(double));
        }
    return pairs;
}

std::string first_text(const Pair& pair, const std::string& mine) {
    char text[kTextBytes] = "";
    std::strncpy(text, mine.c_str(), sizeof(text) - 1);
    if (pair.rank() != 0)
        tell(0, text, sizeof(text));
    else
        for (int rank = 1; rank < pair.size(); ++rank) {
            char other[kTextBytes];
            hear(rank, other, sizeof(other));
            if (text[0] == '\0')
                std::memcpy(text, other, sizeof(text));
        }
    tell_all(text, sizeof(text));
    return text;
}

Machine describe(const Pair& pair, const std::vector<gpurun_device_info>& devices) {
    Machine machine;
    int version[3] = {0, 0, 0};
    gpurun_version(&version[0], &version[1], &version[2]);
    machine.version = std::to_string(version[0]) + "." + std::to_string(version[1]) + "." + std::to_string(version[2]);
    machine.date = date();
    utsname system{};
    uname(&system);
    machine.system = std::string("Linux ") + system.release + " " + system.machine;
    machine.driver = driver_version();
    machine.processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    for (const gpurun_device_info& device : devices)
        machine.ranks.push_back(
            {device.ordinal, device.kind == GPURUN_DEVICE_EMULATED, device.name, device.pci_bus_id});
    for (size_t rank = 0; rank + 1 < static_cast<size_t>(pair.size()); rank += 2)
        machine.share_device |= std::strcmp(devices[rank].uuid, devices[rank + 1].uuid) == 0;
    for (const char* setting : kSettings)
        if (const char* value = std::getenv(setting); value != nullptr)
            machine.settings.emplace_back(setting, value);
    return machine;
}

bool any_share(int ranks, const std::vector<gpurun_device_info>& devices) {
    const auto count = static_cast<size_t>(ranks);
    for (size_t a = 0; a < count; ++a)
        for (size_t b = a + 1; b < count; ++b)
            if (std::strcmp(devices[a].uuid, devices[b].uuid) == 0)
                return true;
    return false;
}

} // namespace gpurun::bench
