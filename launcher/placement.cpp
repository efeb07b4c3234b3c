#include "placement.hpp"

#include "base/format.hpp"
#include "mapping.hpp"
#include "mps_limits.hpp"
#include "platform/job_segment.hpp"
#include "ranges.hpp"

#include <algorithm>
#include <charconv>
#include <set>

namespace gpurun::launcher {

namespace {

using Indices = std::vector<size_t>;

// As CUDA_VISIBLE_DEVICES takes it. Records of machines may lack UUIDs.
std::string name_for_cuda(const Device& device) {
    return device.uuid.empty() ? std::to_string(device.number) : device.uuid;
}

// CUDA shows a process at most one MIG instance.
bool has_instances(const std::vector<Device>& devices) {
    return std::any_of(devices.begin(), devices.end(), [](const Device& device) { return !device.parent.empty(); });
}

// What CUDA_VISIBLE_DEVICES must be so that CUDA numbers the GPUs of the job as its ranks do; "" if it need not be
// set. The GPUs that the job may use stay visible; those that no rank has, only where they do not disturb the numbers.
std::string visible_to_all(const Mapping& mapping, const std::vector<Device>& devices) {
    Indices used;
    for (const size_t device : mapping.devices)
        if (std::find(used.begin(), used.end(), device) == used.end())
            used.push_back(device);
    const Indices& chosen = mapping.chosen;
    const bool shared = mapping.devices.size() > used.size();
    const bool in_order = used.size() <= chosen.size() && std::equal(used.begin(), used.end(), chosen.begin());
    const Indices& visible = in_order && (!shared || used.size() == chosen.size()) ? chosen : used;
    bool everything = visible.size() == devices.size();
    std::string names;
    for (size_t i = 0; i < visible.size(); ++i) {
        everything = everything && visible[i] == i;
        names += i == 0 ? "" : ",";
        names += name_for_cuda(devices[visible[i]]);
    }
    return everything ? "" : names;
}

// Of --map-by list:, as far as it is made of numbers; what else is in it, is for select_devices() to refuse.
size_t listed_ranks(const std::string& list) {
    size_t ranks = 0;
    for (const Range& range : parse_ranges(list, ',').value_or(std::vector<Range>(1)))
        ranks += static_cast<size_t>(range.last - range.first) + 1;
    return std::min<size_t>(ranks, platform::kMaxRanks);
}

// How many devices are emulated if --device does not say: as many as ranks need.
size_t emulated_devices(const PlacementOptions& options, std::optional<size_t> ranks) {
    if (options.map_by == MapBy::kList && !ranks)
        return listed_ranks(options.list);
    const size_t each = options.ranks_per_gpu.value_or(1);
    return (ranks.value_or(1) + each - 1) / each;
}

std::vector<size_t> program_of_ranks(const std::vector<Program>& programs, size_t ranks) {
    std::vector<size_t> result;
    for (size_t i = 0; i < programs.size(); ++i)
        result.insert(result.end(), programs.size() == 1 ? ranks : *programs[i].ranks, i);
    return result;
}

std::string notice_of_cores(const platform::Machine& machine, const PlacementOptions& options, size_t ranks) {
    if (ranks <= machine.cores.size() || machine.cores.empty() || !options.map.empty() ||
        options.bind_to == BindTo::kNone)
        return "";
    return base::format(
        "{} ranks, but gpurun may use {} core{} only, so they share them: start fewer with -n, or allow "
        "the job more CPUs",
        ranks, machine.cores.size(), machine.cores.size() == 1 ? "" : "s");
}

base::Result<std::vector<Binding>> bind(const PlacementOptions& options, const platform::Machine& machine,
                                        const std::vector<Device>& devices) {
    if (!options.map.empty())
        return bind_as_mapped(machine, options);
    return bind_ranks(machine, devices, options.bind_to, options.membind);
}

size_t ranks_on(const Mapping& mapping, size_t device) {
    return static_cast<size_t>(std::count(mapping.devices.begin(), mapping.devices.end(), device));
}

uint32_t queues_asked_for(const char* const* inherited, const std::vector<Variable>& set) {
    const std::string text = value_for_rank(inherited, set, "CUDA_DEVICE_MAX_CONNECTIONS").value_or("");
    uint32_t queues = 0;
    const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), queues);
    return failed == std::errc{} && stop == text.data() + text.size() ? std::min(queues, kMostQueues) : 0;
}

} // namespace

base::Result<Placement> place_job(const Options& options, const Surroundings& there) {
    const PlacementOptions& where = options.placement;
    GPURUN_ASSIGN(const std::optional<size_t> asked, ranks_asked_for(options.programs, where));
    GPURUN_ASSIGN(const DeviceList list,
                  list_devices(where.device, emulated_devices(where, asked), there.gpus, there.absence));
    GPURUN_ASSIGN(const Mapping mapping, map_ranks(where, asked, list.devices, there.machine));
    Placement placement;
    placement.device_notice = list.notice;
    placement.on_gpus = !list.devices[0].bus_id.empty();
    std::vector<Device> devices;
    for (const size_t device : mapping.devices)
        devices.push_back(list.devices[device]);
    GPURUN_ASSIGN(const std::vector<Binding> bindings, launcher::bind(where, there.machine, devices));
    const size_t size = devices.size();
    const auto local_size = static_cast<uint32_t>(size);
    if (there.share && there.share->ranks != local_size)
        return base::error(base::Status::kArgument, "this node is to run {} rank{}, but its options place {}",
                           there.share->ranks, there.share->ranks == 1 ? "" : "s", size);
    placement.core_notice = notice_of_cores(there.machine, where, size);

    const bool own = placement.on_gpus && (where.gpu_visible == GpuVisible::kOwn || has_instances(list.devices));
    const std::string visible = placement.on_gpus ? visible_to_all(mapping, list.devices) : "";
    const std::vector<size_t> programs = program_of_ranks(options.programs, size);
    for (size_t rank = 0; rank < size; ++rank) {
        RankPlan plan{programs[rank], devices[rank], bindings[rank], own, {}, 0};
        const NodeShare share = there.share.value_or(NodeShare{0, local_size, local_size, "", ""});
        const RankFacts facts{share.first + static_cast<uint32_t>(rank),
                              share.job_size,
                              plan.device.setting,
                              own ? name_for_cuda(plan.device) : visible,
                              plan.binding.threads,
                              options.compat_environment,
                              there.port,
                              ranks_on(mapping, mapping.devices[rank]),
                              there.share,
                              options.nodes.fabric};
        GPURUN_ASSIGN(plan.variables,
                      rank_variables(there.environment, facts, options.programs[plan.program].settings));
        plan.hardware_queues = queues_asked_for(there.environment, plan.variables);
        placement.ranks.push_back(std::move(plan));
    }
    return placement;
}

} // namespace gpurun::launcher
