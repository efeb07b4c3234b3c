#include "planning.hpp"

#include "base/format.hpp"
#include "machine_view.hpp"
#include "mps_limits.hpp"
#include "platform/free_port.hpp"
#include "platform/job_segment.hpp"
#include "platform/signals.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

namespace gpurun::launcher {

namespace {

constexpr int kUnusableFolder = 2;

// How many CPUs the ranks have together.
uint32_t shared_cpus(const std::vector<RankPlan>& ranks, const platform::Machine& machine) {
    std::set<int> cpus;
    for (const RankPlan& rank : ranks) {
        if (rank.binding.cpus.empty())
            return static_cast<uint32_t>(machine.cpus());
        cpus.insert(rank.binding.cpus.begin(), rank.binding.cpus.end());
    }
    return static_cast<uint32_t>(cpus.size());
}

} // namespace

Located locate(const Program& program) {
    platform::Program found = platform::find_program(program.command[0], std::getenv("PATH"));
    if (found.exit_status != 0)
        return {{}, found.exit_status, std::move(found.reason)};
    Located located{{std::move(found.path), program.command, ""}, 0, ""};
    if (!program.folder)
        return located;
    std::error_code failed;
    const std::filesystem::path folder = std::filesystem::absolute(*program.folder, failed).lexically_normal();
    if (!std::filesystem::is_directory(folder, failed))
        return {{},
                kUnusableFolder,
                base::format("--chdir {}: {}", *program.folder, failed ? failed.message() : "no folder")};
    located.plan.folder = folder;
    located.plan.path = std::filesystem::absolute(located.plan.path, failed);
    return located;
}

base::Result<Surroundings> look_around(const Options& options, const char* const* environment) {
    Surroundings there;
    there.environment = environment;
    const platform::SignalsBlocked for_threads; // NVML and hwloc's plugins may start some
    GPURUN_ASSIGN(MachineView view, view_machine(options));
    there.gpus = std::move(view.gpus);
    there.absence = std::move(view.absence);
    there.machine = std::move(view.machine);
    if (options.compat_environment)
        there.port = platform::free_port();
    return there;
}

base::Result<uint32_t> count_slots(const Options& options, const Surroundings& there) {
    Options alone = options;
    const bool several = alone.programs.size() > 1;
    const bool counted = alone.programs[0].ranks.has_value();
    alone.programs.resize(1);
    alone.programs[0].ranks.reset();
    PlacementOptions& where = alone.placement;
    const bool emulated =
        where.device.kind == DeviceKind::kEmulated || (where.device.kind == DeviceKind::kAuto && there.gpus.empty());
    if (emulated && !where.device.count && (counted || several)) {
        where.device.kind = DeviceKind::kEmulated;
        where.device.count =
            static_cast<uint32_t>(std::clamp<size_t>(there.machine.cores.size(), 1, platform::kMaxRanks));
    }
    GPURUN_ASSIGN(const Placement placement, place_job(alone, there));
    return static_cast<uint32_t>(placement.ranks.size());
}

void keep_share(std::vector<Program>& programs, uint32_t first, uint32_t count) {
    if (programs.size() == 1) {
        programs[0].ranks = count;
        return;
    }
    uint32_t begin = 0;
    std::vector<Program> kept;
    for (Program& program : programs) {
        const uint32_t end = begin + program.ranks.value_or(0);
        const uint32_t from = std::max(begin, first);
        const uint32_t to = std::min(end, first + count);
        begin = end;
        if (from >= to)
            continue;
        program.ranks = to - from;
        kept.push_back(std::move(program));
    }
    programs = std::move(kept);
}

base::Result<MpsPlan> mps_for(const Options& options, const Placement& placement) {
    if (options.report.record) // which may lack UUIDs, and nothing is started
        return MpsPlan();
    std::vector<Device> devices;
    std::vector<uint32_t> queues;
    for (const RankPlan& rank : placement.ranks) {
        devices.push_back(rank.device);
        queues.push_back(rank.hardware_queues);
    }
    GPURUN_ASSIGN(MpsPlan plan, plan_mps(options.mps, devices));
    if (!plan.gpus.empty())
        plan.notice = notice_of_queues(devices, queues);
    return plan;
}

JobPlan plan_job(const Options& options, Placement placement, MpsPlan mps, std::vector<ProgramPlan> programs,
                 const Surroundings& there) {
    JobPlan plan;
    plan.programs = std::move(programs);
    plan.ranks = std::move(placement.ranks);
    plan.environment = there.environment;
    plan.cores = shared_cpus(plan.ranks, there.machine);
    plan.output = options.output;
    plan.ending = options.ending;
    plan.debugger = options.debugger;
    plan.mps = std::move(mps);
    return plan;
}

} // namespace gpurun::launcher
