#include "environment.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <string_view>

namespace gpurun::launcher {

namespace {

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

bool has(const char* const* environment, std::string_view name) {
    for (; *environment != nullptr; ++environment)
        if (name_of(*environment) == name)
            return true;
    return false;
}

} // namespace

std::vector<std::string> environment_with(const char* const* inherited, std::span<const Variable> own) {
    std::vector<std::string> result;
    for (; *inherited != nullptr; ++inherited) {
        const std::string_view name = name_of(*inherited);
        if (std::none_of(own.begin(), own.end(), [&](const Variable& mine) { return mine.name == name; }))
            result.emplace_back(*inherited);
    }
    for (const Variable& mine : own)
        result.push_back(base::format("{}={}", mine.name, mine.value));
    return result;
}

std::vector<std::string> rank_environment(const char* const* inherited, const RankIdentity& identity,
                                          std::span<const Variable> more) {
    // All ranks are on this machine, so local numbers are global ones.
    std::vector<Variable> own = {
        {"GPURUN_RANK", std::to_string(identity.rank)},
        {"GPURUN_SIZE", std::to_string(identity.size)},
        {"GPURUN_LOCAL_RANK", std::to_string(identity.rank)},
        {"GPURUN_LOCAL_SIZE", std::to_string(identity.size)},
        {"GPURUN_CONTROL_FD", std::to_string(identity.control_fd)},
        {"GPURUN_DEVICE", identity.device},
        {"GPURUN_MPS", identity.mps ? "1" : "0"},
        {"GPURUN_JOB", identity.job},
    };
    own.insert(own.end(), more.begin(), more.end());
    // What a rank gets unless the user has set it.
    const Variable defaults[] = {
        // Ordinals then mean the same to gpurun and to every program.
        {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
        // The most hardware queues that CUDA offers: streams that share one hold each other up, and a stream that
        // waits for another rank must not hold up a stranger.
        {"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
    };
    for (const Variable& fallback : defaults)
        if (!has(inherited, fallback.name))
            own.push_back(fallback);
    return environment_with(inherited, own);
}

} // namespace gpurun::launcher
