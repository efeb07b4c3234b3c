#include "gpu_selection.hpp"

#include "base/format.hpp"
#include "platform/topology.hpp"
#include "ranges.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace gpurun::launcher {

namespace {

using Indices = std::vector<size_t>;

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
}

base::Error not_there(std::string_view option, std::string_view word, const std::vector<Device>& devices) {
    const bool emulated = !devices.empty() && devices[0].bus_id.empty();
    return base::error(base::Status::kArgument, "{}: there is no GPU '{}' among the {} here, 0 to {} ({})", option,
                       word, count_devices(devices, devices.size()), devices.empty() ? 0 : devices.size() - 1,
                       emulated ? "--device=emulated:COUNT makes more" : "gpurun --topo lists them");
}

// The devices that have `name` of themselves, or are instances of a GPU that has it.
template <typename Fits>
base::Result<Indices> find(std::string_view option, std::string_view word, const std::vector<Device>& devices,
                           Fits fits) {
    Indices found;
    std::set<std::string> gpus;
    for (size_t i = 0; i < devices.size(); ++i)
        if (fits(devices[i])) {
            found.push_back(i);
            gpus.insert(devices[i].bus_id);
        }
    if (found.empty())
        return not_there(option, word, devices);
    if (gpus.size() > 1)
        return base::error(base::Status::kArgument, "{}: {} matches {} GPUs; write more of it, or their PCI addresses",
                           option, word, gpus.size());
    return found;
}

base::Result<Indices> find_uuid(std::string_view option, std::string_view word, const std::vector<Device>& devices) {
    const std::string wanted = lower(word);
    auto found = find(option, word, devices, [&](const Device& device) {
        return lower(device.uuid).starts_with(wanted) || lower(device.parent).starts_with(wanted);
    });
    if (found && found->size() > 1 && wanted.starts_with("mig-"))
        return base::error(base::Status::kArgument, "{}: {} matches {} MIG instances; write more of it", option, word,
                           found->size());
    return found;
}

base::Result<Indices> find_word(std::string_view option, std::string_view word, const std::vector<Device>& devices) {
    if (const auto range = parse_range(word)) {
        Indices found;
        for (int number = range->first; number <= range->last; ++number) {
            if (static_cast<size_t>(number) >= devices.size())
                return not_there(option, range->first == range->last ? std::string(word) : std::to_string(number),
                                 devices);
            found.push_back(static_cast<size_t>(number));
        }
        return found;
    }
    const std::string small = lower(word);
    if (small.size() > 4 && (small.starts_with("gpu-") || small.starts_with("mig-")))
        return find_uuid(option, word, devices);
    if (const std::string bus_id = platform::normal_bus_id(std::string(word)); !bus_id.empty())
        return find(option, word, devices, [&](const Device& device) { return device.bus_id == bus_id; });
    return base::error(base::Status::kArgument,
                       "{}: '{}' names no GPU: write its number (or a range of them, 0-3), its UUID (GPU-..., MIG-...) "
                       "or its PCI address (0000:1b:00.0)",
                       option, word);
}

} // namespace

base::Result<std::vector<size_t>> select_devices(std::string_view option, std::string_view list,
                                                 const std::vector<Device>& devices) {
    Indices selected;
    for (size_t begin = 0; begin <= list.size();) {
        const size_t end = std::min(list.find(',', begin), list.size());
        GPURUN_ASSIGN(const Indices found, find_word(option, list.substr(begin, end - begin), devices));
        selected.insert(selected.end(), found.begin(), found.end());
        begin = end + 1;
    }
    return selected;
}

} // namespace gpurun::launcher
