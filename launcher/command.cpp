#include "command.hpp"

#include "base/format.hpp"
#include "base/settings.hpp"
#include "head.hpp"
#include "host_reports.hpp"
#include "job.hpp"
#include "jobs_command.hpp"
#include "machine_report.hpp"
#include "mpi_programs.hpp"
#include "mps.hpp"
#include "node_daemon.hpp"
#include "options.hpp"
#include "own_lines.hpp"
#include "placement.hpp"
#include "placement_report.hpp"
#include "planning.hpp"
#include "platform/byte_stream.hpp"
#include "platform/process.hpp"
#include "platform/supervisors.hpp"
#include "report_json.hpp"
#include "supervisor.hpp"
#include "verdict.hpp"

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace gpurun::launcher {

namespace {

constexpr int kUsage = 2;

void say(const std::string& text) { platform::write_all(platform::kStandardError, as_own_lines(text)); }

int complain(int exit_status, const std::string& detail) {
    say(detail);
    return exit_status;
}

// What the command is for. The exit status.
int print(const std::string& text) {
    const auto printed = platform::print(text);
    return printed ? 0 : complain(1, printed.error().detail);
}

int report(const Options& options, const Placement& placement, const platform::Machine& machine) {
    const std::string text =
        options.report.json ? bindings_as_json(placement, machine) : bindings_as_table(options, placement, machine);
    if (options.report.dry_run)
        return print(text);
    if (options.report.json) // for a program to read
        platform::write_all(platform::kStandardError, text);
    else // what is printed beside a job's output must not mix with it
        say(text);
    return 0;
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
    JobPlan plan = plan_job(options, std::move(placement), std::move(mps), std::move(programs), there);
    plan.trace = options.trace;
    plan.emulated_nodes = // ranks complain of what cannot be read
        base::usable_settings([](const char* name) { return std::getenv(name); }).emulated_nodes;
    if (!options.trace.empty()) {
        GPURUN_ASSIGN(plan.trace_limits, TraceLimits::from_settings());
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
    for (const std::string& notice :
         {placement->device_notice, mps->notice, notice_of_mpi(programs, placement->ranks.size())})
        if (!notice.empty())
            say(notice);
    if (says_core_notice(options, *placement))
        say(placement->core_notice);
    const int printed = options.report.bindings ? report(options, *placement, there->machine) : 0;
    if (options.report.dry_run)
        return printed;
    auto exit_status = run_job(options, std::move(*placement), std::move(*mps), std::move(programs), *there);
    return exit_status ? *exit_status : complain(exit_status_of(exit_status.error()), exit_status.error().detail);
}

const char* own_variable(const char* name) { return std::getenv(name); }

// A job whose only host is this machine: no more than its number of ranks, if it has one, is left to say.
base::Result<void> stay_here(Options& options, const Host& host) {
    if (!host.slots)
        return {};
    GPURUN_ASSIGN(const std::vector<uint32_t> ranks,
                  fill_hosts({*host.slots}, wanted_ranks(options.programs), options.placement.oversubscribe));
    if (options.programs.size() == 1)
        options.programs[0].ranks = ranks[0];
    return {};
}

// Where ranks run on other hosts, those find their programs themselves.
std::vector<ProgramPlan> those_found_here(const Options& options) {
    std::vector<ProgramPlan> programs;
    if (options.report.dry_run || options.report.topology) // there may be none
        return programs;
    for (const Program& program : options.programs)
        if (Located located = locate(program); located.exit_status == 0)
            programs.push_back(std::move(located.plan));
    return programs;
}

int run_on_nodes(Options options, std::vector<Host> hosts, const std::vector<std::string>& words,
                 const char* const* environment) {
    if (auto checked = check_for_nodes(options); !checked)
        return complain(kUsage, checked.error().detail);
    if (options.report.record) {
        auto text = report_recorded(options, hosts, environment);
        if (!text)
            return complain(kUsage, text.error().detail);
        return print(*text);
    }
    if (const std::string notice =
            notice_of_mpi(those_found_here(options), wanted_ranks(options.programs).value_or(hosts.size()));
        !notice.empty())
        say(notice);
    AgentCommand agent = choose_agent(options.nodes, own_variable);
    auto head = Head::create(std::move(options), {std::move(hosts), std::move(agent)}, words, environment);
    if (!head)
        return complain(exit_status_of(head.error()), head.error().detail);
    auto exit_status = (*head)->run();
    return exit_status ? *exit_status : complain(1, exit_status.error().detail);
}

int print_machine(const Options& options, const char* const* environment) {
    auto facts = gather_facts(options, environment);
    if (!facts)
        return complain(kUsage, facts.error().detail);
    return print(options.report.json ? machine_as_json(*facts) : machine_as_text(*facts));
}

} // namespace

int run(int argc, const char* const* argv, const char* const* environment) {
    if (auto opened = platform::open_standard_streams(); !opened)
        return 1;
    if (argc == 3 && std::string_view(argv[1]) == platform::kSupervise) // started by libgpurun
        return supervise(argv[2]);
    if (argc == 2 && std::string_view(argv[1]) == "--node-daemon") // started by the gpurun of several nodes
        return run_node_daemon(environment);
    if (argc >= 2 && std::string_view(argv[1]) == "jobs")
        return list_jobs(std::vector<std::string>(argv + 2, argv + argc));
    auto parsed = parse_options(argc, argv);
    if (!parsed)
        return complain(kUsage, parsed.error().detail);
    if (!parsed->to_print.empty())
        return print(parsed->to_print);
    Options& options = parsed->options;
    if (options.report.topology && !options.nodes.named())
        return print_machine(options, environment);
    auto hosts = read_hosts(options.nodes, wanted_ranks(options.programs), own_variable);
    if (!hosts)
        return complain(kUsage, hosts.error().detail);
    if (hosts->size() > 1 || (hosts->size() == 1 && !is_this_machine((*hosts)[0].name)))
        return run_on_nodes(std::move(options), std::move(*hosts), {argv, argv + argc}, environment);
    if (options.report.topology)
        return print_machine(options, environment);
    if (!hosts->empty())
        if (auto staying = stay_here(options, (*hosts)[0]); !staying)
            return complain(kUsage, staying.error().detail);
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
