#include "command.hpp"

#include "base/format.hpp"
#include "devices.hpp"
#include "job.hpp"
#include "mps.hpp"
#include "options.hpp"
#include "placement.hpp"
#include "platform/byte_stream.hpp"
#include "platform/gpu_inventory.hpp"
#include "platform/process.hpp"
#include "platform/topology.hpp"

#include <cstdlib>

namespace gpurun::launcher {

namespace {

constexpr int kUsage = 2;

int complain(int exit_status, const std::string& detail) {
    platform::write_all(2, base::format("gpurun: {}\n", detail));
    return exit_status;
}

base::Result<DevicePlan> find_devices(const Options& options) {
    if (options.device.kind == DeviceKind::kEmulated) // asking NVML takes longer than a short program
        return plan_devices(options, {}, "");
    platform::GpuInventory inventory = platform::find_gpus();
    const bool found = !inventory.gpus.empty();
    GPURUN_ASSIGN(inventory.gpus,
                  platform::visible_gpus(inventory.gpus, found ? std::getenv("CUDA_VISIBLE_DEVICES") : nullptr));
    if (found && inventory.gpus.empty())
        inventory.absence = "CUDA_VISIBLE_DEVICES hides every GPU";
    return plan_devices(options, inventory.gpus, inventory.absence);
}

base::Result<int> run_job(const Options& options, const DevicePlan& devices, MpsPlan mps, std::string program_path,
                          const char* const* environment) {
    bool on_gpus = false;
    for (const RankDevice& device : devices.ranks)
        on_gpus = on_gpus || !device.bus_id.empty();
    GPURUN_ASSIGN(const platform::Machine machine, platform::discover_machine(on_gpus));
    JobPlan plan;
    plan.program_path = std::move(program_path);
    plan.arguments = options.command;
    plan.environment = environment;
    plan.devices = devices.ranks;
    plan.placements = place_ranks(machine, devices.ranks, options.bind_to);
    plan.cores = static_cast<uint32_t>(machine.cpus());
    plan.output = options.output;
    plan.ending = options.ending;
    plan.mps = std::move(mps);
    GPURUN_ASSIGN(std::unique_ptr<Job> job, Job::create(std::move(plan)));
    return job->run();
}

} // namespace

int run(int argc, const char* const* argv, const char* const* environment) {
    if (auto opened = platform::open_standard_streams(); !opened)
        return 1;
    auto parsed = parse_options(argc, argv);
    if (!parsed)
        return complain(kUsage, parsed.error().detail);
    if (!parsed->to_print.empty()) {
        platform::write_all(1, parsed->to_print);
        return 0;
    }
    const Options& options = parsed->options;
    platform::Program program = platform::find_program(options.command[0], std::getenv("PATH"));
    if (program.exit_status != 0)
        return complain(program.exit_status, program.reason);
    auto devices = find_devices(options);
    if (!devices)
        return complain(kUsage, devices.error().detail);
    if (auto checked = check_ranks(options.output, static_cast<uint32_t>(devices->ranks.size())); !checked)
        return complain(kUsage, checked.error().detail);
    auto mps = plan_mps(options.mps, devices->ranks);
    if (!mps)
        return complain(kUsage, mps.error().detail);
    if (!devices->notice.empty())
        platform::write_all(2, base::format("gpurun: {}\n", devices->notice));
    auto exit_status = run_job(options, *devices, std::move(*mps), std::move(program.path), environment);
    return exit_status ? *exit_status : complain(1, exit_status.error().detail);
}

} // namespace gpurun::launcher
