#include "options.hpp"

#include "base/format.hpp"
#include "option_reader.hpp"
#include "option_values.hpp"

#include <gpurun/version.h>
#include <optional>

namespace gpurun::launcher {

namespace {

constexpr const char* kHelp = R"(Usage: gpurun [OPTION...] PROGRAM [ARGUMENT...]
       gpurun [OPTION...] -n N PROGRAM [ARGUMENT...] : -n N PROGRAM [ARGUMENT...] ...
       gpurun --topo
       gpurun jobs [--json] [--watch]

Start PROGRAM as the ranks of one job, one for each GPU.

For each program:
  -n, --ranks N          number of ranks (default: one for each device)
  --env NAME[=VALUE]     set a variable in its environment; may be given more than once
  --chdir FOLDER         run it in FOLDER

Devices:
  --device DEVICE        auto: GPUs, or emulated devices if there is no GPU (default)
                         cuda: GPUs only
                         emulated[:COUNT]: emulated devices only, as many as ranks or COUNT
  --gpus LIST            use only these: numbers (0,2-3), UUIDs (GPU-..., MIG-...), PCI addresses
  --map-by gpu|numa|list:LIST
                         which GPU each rank gets: all GPUs in turn (default), those of all NUMA nodes in turn, or LIST
  --ranks-per-gpu K      K ranks on each GPU
  --oversubscribe        allow more ranks than devices, and ranks that share CPUs
  --gpu-visible job|own  which GPUs a rank sees: all of the job (default), or only its own
  --mps auto|on|off      a private MPS daemon for the ranks' GPUs: if ranks share a GPU (default), always, never

Several nodes:
  --hosts HOST[:RANKS],...
                         run the job on these hosts, each with RANKS ranks (default: one for each device)
  --hostfile FILE        the same from a file: one HOST, HOST:RANKS or HOST slots=RANKS a line
  --ppn K                K ranks on each host that does not say how many
  --agent COMMAND        how gpurun is started there: COMMAND HOST 'gpurun ...' (default: ssh -x -oBatchMode=yes)
  --fabric PROVIDER      libfabric's provider for messages between hosts (default: GPURUN_FABRIC, or the best there is)

CPUs and memory:
  --bind-to core|numa|none
                         bind each rank to cores near its device (default), to those of one NUMA node, or to none
  --membind[=bind|prefer|none]
                         take memory only from the nearest NUMA node, preferably from it (default), or from any node
  --map 'GPU:CPUS[:NODE]',...
                         place each rank by hand, for example 0:0-7,1:16-23+48:1

What is printed:
  --report-bindings      a table of where each rank runs, on standard error
  --dry-run              the same on standard output, and start nothing
  --topology FILE        the same for a machine that lstopo has recorded
  --topo                 the machine: GPUs, links, NUMA nodes, MPS, MIG, and the paths of messages
  --json                 any of these as JSON
  -h, --help             print this
  --version              print the version

Output and input (RANKS: 0,2-5, all or none):
  --tag-output[=host]    print [rank], or [rank host], before each line
  --timestamp            print the time before each line
  --output-dir DIR       write DIR/rank-N.out and DIR/rank-N.err too, for each rank N
  --filter RANKS         print only what these ranks print (default: all)
  --stdin RANK|all|none  who reads gpurun's input (default: 0)
  --pty auto|on|off      ranks print to pseudo-terminals, so that lines appear at once: if there are enough (default),
                         always, or never (to pipes)

Where the time goes:
  --trace FILE           write each message and call of each rank as a timeline, for Perfetto and chrome://tracing

Debuggers:
  --debug RANK[:COMMAND] run this rank under COMMAND (default: gdb -q --args), which gets the terminal

The end of a job:
  --keep-going           when a rank fails, leave the others running
  --timeout SECONDS      end the job after this time, with status 124
  --hang-timeout SECONDS print what each rank waits for once one has waited this long; the job goes on
  --grace SECONDS        time between asking ranks to end and killing them (default: 2)

Other:
  --no-compat-env        do not set the variables of other launchers (RANK, OMPI_COMM_WORLD_RANK, ...)

Examples:
  gpurun ./app                            one rank for each GPU
  gpurun -n 4 --device=emulated ./app     four ranks on emulated devices
  gpurun -n 8 --oversubscribe ./app       eight ranks on the GPUs that there are
  gpurun --gpus 2,3 --dry-run ./app       where two ranks on these would run

See gpurun(1).
)";

constexpr Choice<MpsChoice> kMps[] = {{"auto", MpsChoice::kAuto}, {"on", MpsChoice::kOn}, {"off", MpsChoice::kOff}};

// The words as written, before any of them is understood.
struct Words {
    ProgramWords program;
    PlacementWords placement;
    ReportOptions report;
    bool no_compat_environment = false;
    std::optional<std::string> mps;
    OutputWords output;
    EndingWords ending;
    NodeWords nodes;
    std::optional<std::string> trace;
    std::optional<std::string> debugger;
    bool version = false;

    void add_to(OptionReader& reader) {
        program.add_to(reader);
        placement.add_to(reader);
        reader.add_flag("--report-bindings", report.bindings);
        reader.add_flag("--topo", report.topology);
        reader.add_flag("--json", report.json);
        reader.add_flag("--dry-run", report.dry_run);
        reader.add_option("--topology", report.record);
        reader.add_flag("--no-compat-env", no_compat_environment);
        reader.add_option("--mps", mps);
        add_output_options(reader, output);
        add_ending_options(reader, ending);
        nodes.add_to(reader);
        reader.add_option("--trace", trace);
        reader.add_option(kDebug, debugger);
        reader.add_flag("--version", version);
    }
};

// What stands behind a ":".
base::Result<Program> parse_further_program(std::vector<std::string> words) {
    ProgramWords program;
    OptionReader reader;
    program.add_to(reader);
    if (auto taken = reader.read(words); !taken)
        return base::error(base::Status::kArgument,
                           "after ':' only -n, --env and --chdir are allowed, for one program; other options are for "
                           "the whole job and are written before the first program: {}",
                           taken.error().detail);
    return understand(program, std::move(words));
}

base::Result<ReportOptions> understand(ReportOptions report) {
    report.dry_run = report.dry_run || report.record.has_value();
    report.bindings = report.bindings || (report.dry_run && !report.topology);
    if (report.json && !report.bindings && !report.topology)
        return base::error(base::Status::kArgument,
                           "--json is for what --report-bindings, --dry-run or --topo prints: add one of them");
    if (report.topology && report.bindings)
        return base::error(base::Status::kArgument, "--topo prints the machine and starts nothing: leave out "
                                                    "--report-bindings and --dry-run, or --topo");
    return report;
}

// A dry run needs no programs, and neither does the machine alone.
base::Result<void> check_programs(const std::vector<Program>& programs, bool may_be_missing) {
    for (const Program& program : programs) {
        const bool is_missing = program.command.empty() || program.command[0].empty();
        if (is_missing && !may_be_missing)
            return base::error(base::Status::kArgument, "which program is to be started{}?{}",
                               programs.size() > 1 ? " (one before and one after each ':')" : "", kSeeHelp);
        if (programs.size() > 1 && !program.ranks)
            return base::error(base::Status::kArgument, "how many ranks run {}? Each of several programs needs a -n",
                               program.command.empty() ? "each program" : program.command[0]);
    }
    return {};
}

} // namespace

base::Result<ParsedOptions> parse_options(int argc, const char* const* argv) {
    ParsedOptions parsed;
    std::vector<std::vector<std::string>> parts = split_programs(argc, argv);
    Words words;
    OptionReader reader;
    bool help = false;
    reader.add_flag("-h,--help", help);
    words.add_to(reader);
    GPURUN_TRY(reader.read(parts[0]));
    if (help || words.version) {
        parsed.to_print = help ? kHelp : "gpurun " GPURUN_VERSION "\nbuilt with " GPURUN_FEATURES "\n";
        return parsed;
    }
    Options& options = parsed.options;
    GPURUN_ASSIGN(Program first, understand(words.program, std::move(parts[0])));
    options.programs.push_back(std::move(first));
    for (size_t i = 1; i < parts.size(); ++i) {
        GPURUN_ASSIGN(Program program, parse_further_program(std::move(parts[i])));
        options.programs.push_back(std::move(program));
    }
    GPURUN_ASSIGN(options.placement, understand(words.placement));
    if (words.mps) {
        GPURUN_ASSIGN(options.mps, parse_choice(*words.mps, "--mps", kMps));
    }
    GPURUN_ASSIGN(options.output, understand(words.output));
    GPURUN_ASSIGN(options.ending, understand(words.ending));
    if (words.trace && words.trace->empty())
        return base::error(base::Status::kArgument, "--trace needs the name of a file");
    options.trace = words.trace.value_or("");
    if (words.debugger) {
        GPURUN_ASSIGN(options.debugger, parse_debugger(*words.debugger));
        const uint32_t rank = options.debugger->rank;
        if (words.output.input && words.output.input != std::to_string(rank))
            return base::error(base::Status::kArgument,
                               "--debug gives gpurun's input to rank {}, --stdin to {}: leave --stdin out", rank,
                               *words.output.input);
        options.output.readers = RankSet::one(rank);
    }
    options.compat_environment = !words.no_compat_environment;
    GPURUN_ASSIGN(options.report, understand(words.report));
    GPURUN_ASSIGN(options.nodes, understand(words.nodes));
    GPURUN_TRY(check_programs(options.programs, options.report.dry_run || options.report.topology));
    return parsed;
}

base::Result<void> check_for_nodes(const Options& options) {
    if (options.debugger)
        return base::error(base::Status::kArgument, "--debug cannot be used on several nodes yet: leave it out");
    return {};
}

} // namespace gpurun::launcher
