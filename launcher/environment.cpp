#include "environment.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace gpurun::launcher {

std::vector<std::string> rank_environment(const char* const* inherited, const RankIdentity& identity) {
    // All ranks are on this machine, so local numbers are global ones.
    const std::pair<std::string_view, std::string> own[] = {
        {"GPURUN_RANK", std::to_string(identity.rank)},
        {"GPURUN_SIZE", std::to_string(identity.size)},
        {"GPURUN_LOCAL_RANK", std::to_string(identity.rank)},
        {"GPURUN_LOCAL_SIZE", std::to_string(identity.size)},
        {"GPURUN_CONTROL_FD", std::to_string(identity.control_fd)},
        {"GPURUN_DEVICE", identity.device},
    };
    // What a rank gets unless the user has set it.
    std::vector<std::pair<std::string_view, std::string_view>> defaults = {
        // Ordinals then mean the same to gpurun and to every program.
        {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
        // The most hardware queues that CUDA offers: streams that share one hold each other up, and a stream that
        // waits for another rank must not hold up a stranger.
        {"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
    };
    std::vector<std::string> result;
    for (; *inherited != nullptr; ++inherited) {
        const std::string_view entry = *inherited;
        const std::string_view name = entry.substr(0, entry.find('='));
        std::erase_if(defaults, [&](const auto& value) { return value.first == name; });
        if (std::none_of(std::begin(own), std::end(own), [&](const auto& mine) { return mine.first == name; }))
            result.emplace_back(entry);
    }
    for (const auto& [name, value] : own)
        result.push_back(base::format("{}={}", name, value));
    for (const auto& [name, value] : defaults)
        result.push_back(base::format("{}={}", name, value));
    return result;
}

} // namespace gpurun::launcher
