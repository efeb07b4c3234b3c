#include "platform/nvml.hpp"

#include "base/format.hpp"
#include "platform/topology.hpp"

#include <dlfcn.h>

namespace gpurun::platform {

namespace {

constexpr unsigned kTextBytes = 96;
// Constants of nvml.h.
constexpr unsigned kEnabled = 1;
constexpr unsigned kSwitch = 2;
constexpr unsigned kUnknownKind = 255;
constexpr unsigned kPeerRead = 0;

const char* describe_peer_status(unsigned status) {
    switch (status) {
    case 1: return "the chipset does not support it";
    case 2: return "a GPU does not support it";
    case 3: return "they are on different host bridges that do not connect";
    case 4: return "it is switched off in the driver";
    case 5: return "not supported";
    default: return "the driver does not know";
    }
}

} // namespace

void CloseLibrary::operator()(void* library) const { ::dlclose(library); }

template <typename Function>
bool Nvml::look_up(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library_.get(), name));
    return function != nullptr;
}

bool Nvml::look_up_all() {
    return look_up("nvmlInit_v2", init_) && look_up("nvmlErrorString", error_string_) &&
           look_up("nvmlDeviceGetCount_v2", count_) && look_up("nvmlDeviceGetHandleByIndex_v2", handle_) &&
           look_up("nvmlDeviceGetUUID", uuid_) && look_up("nvmlDeviceGetName", name_) &&
           look_up("nvmlDeviceGetPciInfo_v3", pci_);
}

void Nvml::look_up_what_newer_ones_have() {
    look_up("nvmlDeviceGetCudaComputeCapability", compute_capability_);
    look_up("nvmlDeviceGetMigMode", mig_mode_);
    look_up("nvmlDeviceGetMaxMigDeviceCount", most_instances_);
    look_up("nvmlDeviceGetMigDeviceHandleByIndex", instance_);
    look_up("nvmlDeviceGetNvLinkState", link_state_);
    look_up("nvmlDeviceGetNvLinkRemotePciInfo_v2", link_far_end_);
    look_up("nvmlDeviceGetNvLinkRemoteDeviceType", link_far_type_);
    look_up("nvmlDeviceGetP2PStatus", peer_status_);
}

std::unique_ptr<Nvml> Nvml::open(std::string& absence) {
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        absence = "there is no NVIDIA driver (libnvidia-ml.so.1 cannot be loaded)";
        return nullptr;
    }
    std::unique_ptr<Nvml> nvml(new Nvml(library));
    if (!nvml->look_up_all()) {
        absence = "the NVIDIA driver's libnvidia-ml.so.1 is too old";
        return nullptr;
    }
    if (const int failed = nvml->init_(); failed != 0) {
        absence = base::format("the NVIDIA driver does not work: {}", nvml->error_string_(failed));
        return nullptr;
    }
    nvml->look_up("nvmlShutdown", nvml->shutdown_);
    nvml->look_up_what_newer_ones_have();
    return nvml;
}

Nvml::~Nvml() {
    if (shutdown_ != nullptr)
        shutdown_();
}

unsigned Nvml::count() const {
    unsigned count = 0;
    return count_(&count) == 0 ? count : 0;
}

NvmlDevice Nvml::device(unsigned index) const {
    NvmlDevice device = nullptr;
    return handle_(index, &device) == 0 ? device : nullptr;
}

std::string Nvml::uuid(NvmlDevice device) const {
    char text[kTextBytes] = {};
    return uuid_(device, text, kTextBytes) == 0 ? text : "";
}

std::string Nvml::name(NvmlDevice device) const {
    char text[kTextBytes] = {};
    return name_(device, text, kTextBytes) == 0 ? text : "";
}

std::string Nvml::bus_id(NvmlDevice device) const {
    NvmlPciInfo pci{};
    return pci_(device, &pci) == 0 ? normal_bus_id(pci.bus_id) : "";
}

int Nvml::compute_major(NvmlDevice device) const {
    int major = 0;
    int minor = 0;
    return compute_capability_ != nullptr && compute_capability_(device, &major, &minor) == 0 ? major : 0;
}

bool Nvml::in_mig_mode(NvmlDevice device) const {
    unsigned current = 0;
    unsigned pending = 0;
    return mig_mode_ != nullptr && mig_mode_(device, &current, &pending) == 0 && current == kEnabled;
}

unsigned Nvml::most_instances(NvmlDevice device) const {
    unsigned count = 0;
    return most_instances_ != nullptr && most_instances_(device, &count) == 0 ? count : 0;
}

NvmlDevice Nvml::instance(NvmlDevice device, unsigned index) const {
    NvmlDevice instance = nullptr;
    return instance_ != nullptr && instance_(device, index, &instance) == 0 ? instance : nullptr;
}

bool Nvml::link_is_up(NvmlDevice device, unsigned link) const {
    unsigned active = 0;
    return link_state_ != nullptr && link_state_(device, link, &active) == 0 && active == kEnabled;
}

std::string Nvml::far_end_of_link(NvmlDevice device, unsigned link) const {
    NvmlPciInfo pci{};
    return link_far_end_ != nullptr && link_far_end_(device, link, &pci) == 0 ? normal_bus_id(pci.bus_id) : "";
}

bool Nvml::link_leads_to_switch(NvmlDevice device, unsigned link) const {
    unsigned type = 0;
    return link_far_type_ != nullptr && link_far_type_(device, link, &type) == 0 &&
           (type == kSwitch || type == kUnknownKind);
}

bool Nvml::can_read(NvmlDevice from, NvmlDevice to, std::string& reason) const {
    unsigned status = 0;
    if (peer_status_ == nullptr || peer_status_(from, to, kPeerRead, &status) != 0) {
        reason = "the driver does not tell";
        return false;
    }
    reason = status == 0 ? "" : describe_peer_status(status);
    return status == 0;
}

} // namespace gpurun::platform
