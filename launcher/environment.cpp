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
    std::vector<std::string> result;
    bool has_order = false;
    for (; *inherited != nullptr; ++inherited) {
        const std::string_view entry = *inherited;
        const std::string_view name = entry.substr(0, entry.find('='));
        has_order = has_order || name == "CUDA_DEVICE_ORDER";
        if (std::none_of(std::begin(own), std::end(own), [&](const auto& mine) { return mine.first == name; }))
            result.emplace_back(entry);
    }
    for (const auto& [name, value] : own)
        result.push_back(base::format("{}={}", name, value));
    // Ordinals then mean the same to gpurun and to every program.
    if (!has_order)
        result.emplace_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
    return result;
}

} // namespace gpurun::launcher
