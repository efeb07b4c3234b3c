#include "platform/numa_node.hpp"

#include "base/format.hpp"
#include "platform/system_error.hpp"

#include <filesystem>
#include <memory>
#include <sched.h>
#include <string>

namespace gpurun::platform {

namespace {

constexpr int kMostCpus = 1 << 16;

// A core's folder has an entry "nodeN" for its node.
std::optional<int> node_of(int cpu) {
    std::error_code none;
    for (const auto& entry :
         std::filesystem::directory_iterator(base::format("/sys/devices/system/cpu/cpu{}", cpu), none)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos && name.size() > 4)
            return std::stoi(name.substr(4));
    }
    return std::nullopt;
}

} // namespace

base::Result<std::optional<int>> own_numa_node() {
    struct Free {
        void operator()(cpu_set_t* set) const { CPU_FREE(set); }
    };
    const std::unique_ptr<cpu_set_t, Free> allowed(CPU_ALLOC(kMostCpus));
    const size_t bytes = CPU_ALLOC_SIZE(kMostCpus);
    if (sched_getaffinity(0, bytes, allowed.get()) != 0)
        return system_error("sched_getaffinity");
    std::optional<int> only;
    for (int cpu = 0; cpu < kMostCpus; ++cpu) {
        if (!CPU_ISSET_S(cpu, bytes, allowed.get()))
            continue;
        const std::optional<int> node = node_of(cpu);
        if (!node || (only && *only != *node))
            return std::optional<int>();
        only = node;
    }
    return only;
}

} // namespace gpurun::platform
