#include "devices.hpp"

#include "base/format.hpp"

namespace gpurun::launcher {

namespace {

std::string counted(size_t number, const char* what) {
    return base::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

base::Result<void> check_sharing(const Options& options, size_t ranks, size_t devices, const char* what) {
    if (ranks <= devices || options.oversubscribe)
        return {};
    return base::error(base::Status::kArgument,
                       "{}, but {}: start at most {} with -n {}, or let ranks share with --oversubscribe",
                       counted(ranks, "rank"), counted(devices, what), devices, devices);
}

base::Result<DevicePlan> plan_emulated(const Options& options) {
    const uint32_t ranks = options.ranks.value_or(options.device.count.value_or(1));
    const uint32_t devices = options.device.count.value_or(ranks);
    GPURUN_TRY(check_sharing(options, ranks, devices, "emulated device"));
    DevicePlan plan;
    for (uint32_t rank = 0; rank < ranks; ++rank)
        plan.ranks.push_back({base::format("emulated:{}/{}", rank % devices, devices), "", ""});
    return plan;
}

} // namespace

base::Result<DevicePlan> plan_devices(const Options& options, const std::vector<platform::Gpu>& gpus,
                                      const std::string& absence) {
    if (options.device.kind == DeviceKind::kEmulated)
        return plan_emulated(options);
    if (gpus.empty()) {
        if (options.device.kind == DeviceKind::kCuda)
            return base::error(base::Status::kArgument, "no GPU for --device=cuda: {}", absence);
        GPURUN_ASSIGN(DevicePlan plan, plan_emulated(options));
        if (!options.device.given)
            plan.notice =
                base::format("no GPU, so {} {} emulated (--device=emulated asks for that): {}",
                             counted(plan.ranks.size(), "device"), plan.ranks.size() == 1 ? "is" : "are", absence);
        return plan;
    }
    const size_t ranks = options.ranks.value_or(gpus.size());
    GPURUN_TRY(check_sharing(options, ranks, gpus.size(), "GPU"));
    DevicePlan plan;
    for (size_t rank = 0; rank < ranks; ++rank) {
        const platform::Gpu& gpu = gpus[rank % gpus.size()];
        plan.ranks.push_back({"cuda:" + gpu.uuid, gpu.bus_id, gpu.uuid});
    }
    return plan;
}

} // namespace gpurun::launcher
