#include "command.hpp"

#include "base/format.hpp"
#include "base/settings.hpp"
#include "job.hpp"
#include "machine_report.hpp"
#include "machine_view.hpp"
#include "mps.hpp"
#include "mps_limits.hpp"
#include "options.hpp"
#include "own_lines.hpp"
#include "placement.hpp"
#include "placement_report.hpp"
#include "platform/byte_stream.hpp"
#include "platform/free_port.hpp"
#include "platform/process.hpp"
#include "platform/signals.hpp"
#include "report_json.hpp"

#include <cstdlib>
#include <filesystem>
#include <set>

namespace gpurun::launcher {

namespace {

constexpr int kUsage = 2;

void say(const std::string& text) { platform::write_all(platform::kStandardError, as_own_lines(text)); }

int complain(int exit_status, const std::string& detail) {
    say(detail);
    return exit_status;
}

// Where the program and its folder are. Both are looked for from where gpurun is.
struct Located {
    ProgramPlan plan;
    int exit_status = 0; // not 0: `reason` says why it cannot be started
    std::string reason;
};
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
        return {{}, kUsage, base::format("--chdir {}: {}", *program.folder, failed ? failed.message() : "no folder")};
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

void report(const Options& options, const Placement& placement, const platform::Machine& machine) {
    const std::string text =
        options.report.json ? bindings_as_json(placement, machine) : bindings_as_table(options, placement, machine);
    if (options.report.dry_run)
        platform::write_all(platform::kStandardOutput, text);
    else if (options.report.json) // for a program to read
        platform::write_all(platform::kStandardError, text);
    else // what is printed beside a job's output must not mix with it
        say(text);
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

// An exit status if the debugger is not there.
int find_debugger(std::optional<Debugger>& debugger) {
    if (!debugger)
        return 0;
    platform::Program found = platform::find_program(debugger->command[0], std::getenv("PATH"));
    if (found.exit_status != 0)
        return complain(found.exit_status,
                        base::format("{}: {} (--debug {}:COMMAND runs the rank under another debugger)", kDebug,
                                     found.reason, debugger->rank));
    std::error_code failed; // absolute because of --chdir
    debugger->path = std::filesystem::absolute(found.path, failed);
    return 0;
}

base::Result<int> run_job(const Options& options, Placement placement, MpsPlan mps, std::vector<ProgramPlan> programs,
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
    plan.trace = options.trace;
    if (!options.trace.empty()) {
        GPURUN_ASSIGN(const base::Settings settings,
                      base::read_settings([](const char* name) { return std::getenv(name); }));
        plan.trace_limits = {settings.trace_events, settings.trace_bytes};
    }
    GPURUN_ASSIGN(std::unique_ptr<Job> job, Job::create(std::move(plan)));
    return job->run();
}

base::Result<void> check_named_ranks(const Options& options, uint32_t ranks) {
    if (options.debugger) // which reads the input: so it is not --stdin that names the rank
        GPURUN_TRY(RankSet::one(options.debugger->rank).check(ranks, kDebug));
    return check_ranks(options.output, ranks);
}

int place_and_run(const Options& options, std::vector<ProgramPlan> programs, const char* const* environment) {
    auto there = look_around(options, environment);
    if (!there)
        return complain(kUsage, there.error().detail);
    auto placement = place_job(options, *there);
    if (!placement)
        return complain(kUsage, placement.error().detail);
    if (auto checked = check_named_ranks(options, static_cast<uint32_t>(placement->ranks.size())); !checked)
        return complain(kUsage, checked.error().detail);
    auto mps = mps_for(options, *placement);
    if (!mps)
        return complain(kUsage, mps.error().detail);
    for (const std::string& notice : {placement->device_notice, mps->notice})
        if (!notice.empty())
            say(notice);
    // No notice for emulated devices, whose speed does not matter, or with --oversubscribe, by which the user accepts
    // it.
    const bool table_says_it = options.report.bindings && !options.report.json;
    if (placement->on_gpus && !options.placement.oversubscribe && !placement->core_notice.empty() && !table_says_it)
        say(placement->core_notice);
    if (options.report.bindings)
        report(options, *placement, there->machine);
    if (options.report.dry_run)
        return 0;
    auto exit_status = run_job(options, std::move(*placement), std::move(*mps), std::move(programs), *there);
    return exit_status ? *exit_status : complain(1, exit_status.error().detail);
}

int print_machine(const Options& options, const char* const* environment) {
    auto facts = gather_facts(options, environment);
    if (!facts)
        return complain(kUsage, facts.error().detail);
    platform::write_all(platform::kStandardOutput,
                        options.report.json ? machine_as_json(*facts) : machine_as_text(*facts));
    return 0;
}

} // namespace

int run(int argc, const char* const* argv, const char* const* environment) {
    if (auto opened = platform::open_standard_streams(); !opened)
        return 1;
    auto parsed = parse_options(argc, argv);
    if (!parsed)
        return complain(kUsage, parsed.error().detail);
    if (!parsed->to_print.empty()) {
        platform::write_all(platform::kStandardOutput, parsed->to_print);
        return 0;
    }
    Options& options = parsed->options;
    if (options.report.topology)
        return print_machine(options, environment);
    std::vector<ProgramPlan> programs;
    for (const Program& program : options.programs)
        if (!options.report.dry_run) {
            Located located = locate(program);
            if (located.exit_status != 0)
                return complain(located.exit_status, located.reason);
            programs.push_back(std::move(located.plan));
        }
    if (!options.report.dry_run)
        if (const int exit_status = find_debugger(options.debugger); exit_status != 0)
            return exit_status;
    return place_and_run(options, std::move(programs), environment);
}

} // namespace gpurun::launcher
