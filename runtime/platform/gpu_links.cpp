#include "platform/gpu_links.hpp"

#include "platform/nvml.hpp"

#include <algorithm>
#include <map>
#include <memory>

namespace gpurun::platform {

namespace {

struct Ends {
    NvmlDevice device = nullptr;
    unsigned to_switches = 0;
    std::map<std::string, unsigned> to_gpus; // by bus id
};

Ends find_ends(const Nvml& nvml, NvmlDevice device) {
    Ends ends;
    ends.device = device;
    for (unsigned link = 0; link < Nvml::kMostLinks; ++link) {
        if (!nvml.link_is_up(device, link))
            continue;
        if (nvml.link_leads_to_switch(device, link))
            ++ends.to_switches;
        else
            ++ends.to_gpus[nvml.far_end_of_link(device, link)];
    }
    return ends;
}

NvmlDevice device_at(const Nvml& nvml, const std::string& bus_id) {
    for (unsigned i = 0; i < nvml.count(); ++i)
        if (NvmlDevice device = nvml.device(i); device != nullptr && nvml.bus_id(device) == bus_id)
            return device;
    return nullptr;
}

GpuLink link_between(const Nvml& nvml, const Ends& a, const Ends& b, const std::string& bus_id_of_b) {
    GpuLink link;
    if (a.device == nullptr || b.device == nullptr) {
        link.reason = "the driver does not tell";
        return link;
    }
    const auto direct = a.to_gpus.find(bus_id_of_b);
    link.nvlinks = direct != a.to_gpus.end() ? direct->second : std::min(a.to_switches, b.to_switches);
    link.peer_access = nvml.can_read(a.device, b.device, link.reason) && nvml.can_read(b.device, a.device, link.reason);
    return link;
}

} // namespace

std::vector<std::vector<GpuLink>> find_links(const std::vector<Gpu>& gpus) {
    std::string absence;
    const std::unique_ptr<Nvml> nvml = Nvml::open(absence);
    if (nvml == nullptr)
        return {};
    std::vector<Ends> ends;
    for (const Gpu& gpu : gpus)
        ends.push_back(find_ends(*nvml, device_at(*nvml, gpu.bus_id)));
    std::vector<std::vector<GpuLink>> links(gpus.size(), std::vector<GpuLink>(gpus.size()));
    for (size_t i = 0; i < gpus.size(); ++i)
        for (size_t j = 0; j < gpus.size(); ++j)
            if (i != j && gpus[i].parent.empty() && gpus[j].parent.empty())
                links[i][j] = link_between(*nvml, ends[i], ends[j], gpus[j].bus_id);
            else if (i != j)
                links[i][j].reason = "MIG instances reach no other";
    return links;
}

} // namespace gpurun::platform
