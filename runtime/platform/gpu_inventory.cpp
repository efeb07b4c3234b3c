#include "platform/gpu_inventory.hpp"

#include "base/format.hpp"
#include "platform/nvml.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>

namespace gpurun::platform {

namespace {

// A GPU in MIG mode is used by its instances only.
void add_gpu(const Nvml& nvml, NvmlDevice device, GpuInventory& inventory) {
    const Gpu gpu{nvml.uuid(device), nvml.bus_id(device), nvml.name(device), "", nvml.compute_major(device)};
    if (gpu.uuid.empty() || gpu.bus_id.empty())
        return;
    if (!nvml.in_mig_mode(device)) {
        inventory.gpus.push_back(gpu);
        return;
    }
    const size_t before = inventory.gpus.size();
    for (unsigned i = 0; i < nvml.most_instances(device); ++i)
        if (NvmlDevice instance = nvml.instance(device, i); instance != nullptr)
            inventory.gpus.push_back(
                Gpu{nvml.uuid(instance), gpu.bus_id, nvml.name(instance), gpu.uuid, gpu.compute_major});
    if (inventory.gpus.size() == before)
        inventory.unusable.push_back(gpu.uuid);
}

using Found = std::vector<const Gpu*>;

base::Error not_there(const std::vector<Gpu>& gpus, std::string_view word) {
    return base::error(base::Status::kSetting,
                       "CUDA_VISIBLE_DEVICES names GPU '{}', but this machine has {} GPUs and that is none of them "
                       "(nvidia-smi -L lists them)",
                       word, gpus.size());
}

// The GPUs as CUDA numbers them: instances have the number of their GPU.
Found find_number(const std::vector<Gpu>& gpus, size_t number) {
    Found found;
    std::string last;
    size_t next = 0;
    for (const Gpu& gpu : gpus) {
        next += gpu.bus_id != last ? 1 : 0;
        last = gpu.bus_id;
        if (next == number + 1)
            found.push_back(&gpu);
    }
    return found;
}

base::Result<Found> find_visible(const std::vector<Gpu>& gpus, std::string_view word) {
    Found found;
    size_t ordinal = 0;
    const char* end = word.data() + word.size();
    if (const auto [stop, failed] = std::from_chars(word.data(), end, ordinal); failed == std::errc{} && stop == end) {
        found = find_number(gpus, ordinal);
    } else if (word.starts_with("GPU-") || word.starts_with("MIG-")) { // may be shortened as long as it is clear
        for (const Gpu& gpu : gpus)
            if (gpu.uuid.starts_with(word) || gpu.parent.starts_with(word))
                found.push_back(&gpu);
        for (const Gpu* gpu : found)
            if (gpu->bus_id != found[0]->bus_id || (word[0] == 'M' && found.size() > 1))
                return base::error(base::Status::kSetting, "CUDA_VISIBLE_DEVICES: {} matches more than one GPU", word);
    }
    if (found.empty())
        return not_there(gpus, word);
    return found;
}

} // namespace

GpuInventory find_gpus() {
    GpuInventory inventory;
    const std::unique_ptr<Nvml> nvml = Nvml::open(inventory.absence);
    if (nvml == nullptr)
        return inventory;
    const unsigned count = nvml->count();
    for (unsigned i = 0; i < count; ++i)
        if (NvmlDevice device = nvml->device(i); device != nullptr)
            add_gpu(*nvml, device, inventory);
    std::stable_sort(inventory.gpus.begin(), inventory.gpus.end(),
                     [](const Gpu& a, const Gpu& b) { return a.bus_id < b.bus_id; });
    if (inventory.gpus.empty())
        inventory.absence = count == 0 ? "the NVIDIA driver has no GPU"
                                       : "the GPUs are in MIG mode and have no instances (nvidia-smi mig makes some)";
    return inventory;
}

base::Result<std::vector<Gpu>> visible_gpus(const std::vector<Gpu>& gpus, const char* list) {
    if (list == nullptr)
        return gpus;
    std::vector<Gpu> visible;
    Found taken;
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
        GPURUN_ASSIGN(const Found found, find_visible(gpus, word));
        for (const Gpu* gpu : found) {
            if (std::find(taken.begin(), taken.end(), gpu) != taken.end())
                return base::error(base::Status::kSetting, "CUDA_VISIBLE_DEVICES names GPU '{}' twice", word);
            taken.push_back(gpu);
            visible.push_back(*gpu);
        }
    }
    return visible;
}

} // namespace gpurun::platform
