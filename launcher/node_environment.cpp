#include "node_environment.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace gpurun::launcher {

namespace {

bool names_this_host(std::string_view name) {
    constexpr std::string_view kOwn[] = {"HOSTNAME",      "HOST",
                                         "DISPLAY",       "WAYLAND_DISPLAY",
                                         "XAUTHORITY",    "TMPDIR",
                                         "SHLVL",         "CUDA_VISIBLE_DEVICES",
                                         "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS"};
    return name.starts_with("SSH_") || name.starts_with("XDG_") || name.starts_with("SLURM") ||
           std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn);
}

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

} // namespace

std::vector<std::string> merge_environments(std::vector<std::string> heads, const char* const* own) {
    std::erase_if(heads, [](const std::string& entry) { return names_this_host(name_of(entry)); });
    for (; *own != nullptr; ++own)
        if (names_this_host(name_of(*own)))
            heads.emplace_back(*own);
    return heads;
}

} // namespace gpurun::launcher
