#include "platform/gpu_inventory.hpp"

#include "base/format.hpp"
#include "platform/topology.hpp"

#include <algorithm>
#include <charconv>
#include <dlfcn.h>
#include <memory>
#include <string_view>

namespace gpurun::platform {

namespace {

// What we use of NVML's stable binary interface (nvml.h is not needed to build).
using NvmlDevice = struct nvmlDevice_st*;
struct NvmlPciInfo { // nvmlPciInfo_t, version 3
    char bus_id_legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned pci_device_id;
    unsigned pci_subsystem_id;
    char bus_id[32];
};
static_assert(sizeof(NvmlPciInfo) == 68);
constexpr unsigned kTextBytes = 96;

struct CloseLibrary {
    void operator()(void* library) const { ::dlclose(library); }
};

class Nvml {
  public:
    // On failure `absence` says why.
    static std::unique_ptr<Nvml> open(std::string& absence);
    ~Nvml() {
        if (shutdown_ != nullptr)
            shutdown_();
    }

    unsigned count() const;
    bool describe(unsigned index, Gpu& gpu) const;

  private:
    explicit Nvml(void* library) : library_(library) {}
    template <typename Function>
    bool look_up(const char* name, Function& function) {
        function = reinterpret_cast<Function>(::dlsym(library_.get(), name));
        return function != nullptr;
    }
    bool look_up_all();

    std::unique_ptr<void, CloseLibrary> library_;
    int (*init_)() = nullptr;
    int (*shutdown_)() = nullptr; // until init has succeeded
    const char* (*error_string_)(int) = nullptr;
    int (*count_)(unsigned*) = nullptr;
    int (*handle_)(unsigned, NvmlDevice*) = nullptr;
    int (*uuid_)(NvmlDevice, char*, unsigned) = nullptr;
    int (*name_)(NvmlDevice, char*, unsigned) = nullptr;
    int (*pci_)(NvmlDevice, NvmlPciInfo*) = nullptr;
};

bool Nvml::look_up_all() {
    return look_up("nvmlInit_v2", init_) && look_up("nvmlErrorString", error_string_) &&
           look_up("nvmlDeviceGetCount_v2", count_) && look_up("nvmlDeviceGetHandleByIndex_v2", handle_) &&
           look_up("nvmlDeviceGetUUID", uuid_) && look_up("nvmlDeviceGetName", name_) &&
           look_up("nvmlDeviceGetPciInfo_v3", pci_);
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
    return nvml;
}

unsigned Nvml::count() const {
    unsigned count = 0;
    return count_(&count) == 0 ? count : 0;
}

bool Nvml::describe(unsigned index, Gpu& gpu) const {
    NvmlDevice device = nullptr;
    char uuid[kTextBytes] = {};
    char name[kTextBytes] = {};
    NvmlPciInfo pci{};
    if (handle_(index, &device) != 0 || uuid_(device, uuid, kTextBytes) != 0 || name_(device, name, kTextBytes) != 0 ||
        pci_(device, &pci) != 0)
        return false;
    gpu = Gpu{uuid, normal_bus_id(pci.bus_id), name};
    return true;
}

base::Result<const Gpu*> find_visible(const std::vector<Gpu>& gpus, std::string_view word) {
    size_t ordinal = 0;
    const char* end = word.data() + word.size();
    if (const auto [stop, failed] = std::from_chars(word.data(), end, ordinal); failed == std::errc{} && stop == end) {
        if (ordinal < gpus.size())
            return &gpus[ordinal];
    } else if (word.starts_with("GPU-")) { // may be shortened as long as it is clear
        const Gpu* found = nullptr;
        for (const Gpu& gpu : gpus) {
            if (!gpu.uuid.starts_with(word))
                continue;
            if (found != nullptr)
                return base::error(base::Status::kSetting, "CUDA_VISIBLE_DEVICES: {} fits more than one GPU", word);
            found = &gpu;
        }
        if (found != nullptr)
            return found;
    } else if (word.starts_with("MIG-")) {
        return base::error(base::Status::kSetting,
                           "CUDA_VISIBLE_DEVICES: {} is a MIG instance, which gpurun cannot "
                           "use yet; name whole GPUs",
                           word);
    }
    return base::error(base::Status::kSetting,
                       "CUDA_VISIBLE_DEVICES names GPU '{}', but this machine has {} GPUs and that is none of them "
                       "(nvidia-smi -L lists them)",
                       word, gpus.size());
}

} // namespace

GpuInventory find_gpus() {
    GpuInventory inventory;
    const std::unique_ptr<Nvml> nvml = Nvml::open(inventory.absence);
    if (nvml == nullptr)
        return inventory;
    for (unsigned i = 0; i < nvml->count(); ++i)
        if (Gpu gpu; nvml->describe(i, gpu))
            inventory.gpus.push_back(std::move(gpu));
    std::sort(inventory.gpus.begin(), inventory.gpus.end(),
              [](const Gpu& a, const Gpu& b) { return a.bus_id < b.bus_id; });
    if (inventory.gpus.empty())
        inventory.absence = "the NVIDIA driver has no GPU";
    return inventory;
}

base::Result<std::vector<Gpu>> visible_gpus(const std::vector<Gpu>& gpus, const char* list) {
    if (list == nullptr)
        return gpus;
    std::vector<Gpu> visible;
    std::string_view rest = list;
    while (!rest.empty()) {
        const size_t comma = std::min(rest.find(','), rest.size());
        std::string_view word = rest.substr(0, comma);
        rest.remove_prefix(std::min(comma + 1, rest.size()));
        while (word.starts_with(' '))
            word.remove_prefix(1);
        while (word.ends_with(' '))
            word.remove_suffix(1);
        if (word.empty() || word == "-1" || word == "NoDevFiles" || word == "none" || word == "void")
            break;
        GPURUN_ASSIGN(const Gpu* gpu, find_visible(gpus, word));
        if (std::any_of(visible.begin(), visible.end(), [&](const Gpu& seen) { return seen.uuid == gpu->uuid; }))
            return base::error(base::Status::kSetting, "CUDA_VISIBLE_DEVICES names GPU '{}' twice", word);
        visible.push_back(*gpu);
    }
    return visible;
}

} // namespace gpurun::platform
