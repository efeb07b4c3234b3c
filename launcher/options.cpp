#include "options.hpp"

#include "base/format.hpp"
#include "platform/job_segment.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <gpurun/version.h>

namespace gpurun::launcher {

namespace {

constexpr const char* kHelp = R"(Usage: gpurun [OPTION...] PROGRAM [ARGUMENT...]

Start PROGRAM as the ranks of one job, one for each GPU.

  -n, --ranks N          number of ranks (default: one for each device)
  --device DEVICE        auto: GPUs, or emulated devices where there is none (default)
                         cuda: GPUs only
                         emulated[:COUNT]: emulated devices only, as many as ranks or COUNT
  --oversubscribe        let ranks share devices
  --bind-to core|none    bind each rank to the cores near its device (default), or to none
  --mps auto|on|off      a private MPS daemon for the ranks' GPUs: where ranks share one (default), always, never
  -h, --help             print this
  --version              print the version

Output and input (RANKS: 0,2-5, all or none):
  --tag-output           print [rank] before each line
  --timestamp            print the time before each line
  --output-dir DIR       write DIR/rank-N.out and DIR/rank-N.err too, for each rank N
  --filter RANKS         print only what these ranks print (default: all)
  --stdin RANK|all|none  who reads gpurun's input (default: 0)

The end of a job:
  --keep-going           when a rank fails, leave the others running
  --timeout SECONDS      end the job after this time, with status 124
  --grace SECONDS        from asking ranks to end to killing them (default: 2)

Examples:
  gpurun ./app                            one rank for each GPU
  gpurun -n 4 --device=emulated ./app     four ranks on emulated devices
  gpurun -n 8 --oversubscribe ./app       eight ranks on the GPUs that there are

See gpurun(1).
)";

constexpr const char* kSeeHelp = " (gpurun --help lists the options)";

base::Result<uint32_t> parse_count(const std::string& text, const std::string& what) {
    int64_t parsed = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, parsed);
    if (failed != std::errc{} || stop != end || parsed < 1 || parsed > platform::kMaxRanks)
        return base::error(base::Status::kArgument, "{} must be a whole number from 1 to {}, not '{}'", what,
                           platform::kMaxRanks, text);
    return static_cast<uint32_t>(parsed);
}

base::Result<BindTo> parse_bind_to(const std::string& text) {
    if (text == "core")
        return BindTo::kCore;
    if (text == "none")
        return BindTo::kNone;
    return base::error(base::Status::kArgument, "--bind-to must be core or none, not '{}'", text);
}

base::Result<MpsChoice> parse_mps(const std::string& text) {
    if (text == "auto")
        return MpsChoice::kAuto;
    if (text == "on")
        return MpsChoice::kOn;
    if (text == "off")
        return MpsChoice::kOff;
    return base::error(base::Status::kArgument, "--mps must be auto, on or off, not '{}'", text);
}

// The words as written, before any of them is understood.
struct Words {
    std::optional<std::string> ranks;
    std::optional<std::string> device;
    std::optional<std::string> bind_to;
    std::optional<std::string> mps;
    OutputWords output;
    EndingWords ending;
};

base::Result<ParsedOptions> understand(const Words& words, ParsedOptions parsed) {
    Options& options = parsed.options;
    if (words.ranks) {
        GPURUN_ASSIGN(options.ranks, parse_count(*words.ranks, "the number of ranks (-n)"));
    }
    if (words.device) {
        GPURUN_ASSIGN(options.device, parse_device(*words.device));
    }
    if (words.bind_to) {
        GPURUN_ASSIGN(options.bind_to, parse_bind_to(*words.bind_to));
    }
    if (words.mps) {
        GPURUN_ASSIGN(options.mps, parse_mps(*words.mps));
    }
    GPURUN_ASSIGN(options.output, launcher::understand(words.output));
    GPURUN_ASSIGN(options.ending, launcher::understand(words.ending));
    if (options.command.empty())
        return base::error(base::Status::kArgument, "which program is to be started?{}", kSeeHelp);
    return parsed;
}

} // namespace

base::Result<DeviceChoice> parse_device(const std::string& text) {
    const size_t colon = text.find(':');
    const std::string kind = text.substr(0, colon);
    DeviceChoice choice;
    choice.given = true;
    if (kind == "emulated") {
        choice.kind = DeviceKind::kEmulated;
        if (colon != std::string::npos) {
            GPURUN_ASSIGN(choice.count, parse_count(text.substr(colon + 1), "the number of emulated devices"));
        }
        return choice;
    }
    if (text == "cuda")
        choice.kind = DeviceKind::kCuda;
    else if (text != "auto")
        return base::error(base::Status::kArgument, "--device must be auto, cuda, emulated or emulated:COUNT, not '{}'",
                           text);
    return choice;
}

base::Result<ParsedOptions> parse_options(int argc, const char* const* argv) {
    Words words;
    ParsedOptions parsed;
    bool version = false;
    CLI::App app("", "gpurun");
    app.prefix_command();
    app.add_option("-n,--ranks", words.ranks);
    app.add_option("--device", words.device);
    app.add_option("--bind-to", words.bind_to);
    app.add_option("--mps", words.mps);
    app.add_flag("--oversubscribe", parsed.options.oversubscribe);
    add_output_options(app, words.output);
    add_ending_options(app, words.ending);
    app.add_flag("--version", version);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        parsed.to_print = kHelp;
        return parsed;
    } catch (const CLI::ParseError& error) {
        return base::error(base::Status::kArgument, "{}{}", error.what(), kSeeHelp);
    }
    if (version) {
        parsed.to_print = "gpurun " GPURUN_VERSION "\n";
        return parsed;
    }
    std::vector<std::string>& command = parsed.options.command;
    command = app.remaining();
    if (!command.empty() && command[0] == "--")
        command.erase(command.begin());
    else if (!command.empty() && command[0].starts_with('-')) // CLI11 leaves unknown options before PROGRAM
        return base::error(base::Status::kArgument, "unknown option {}{}", command[0], kSeeHelp);
    return understand(words, std::move(parsed));
}

} // namespace gpurun::launcher
