// gpurun's command line. Options end at the first word that is none: PROGRAM, whose own options are its own.
//
// The groups of options that belong together have files of their own: what is said of each program
// (program_options), and where ranks run (placement_options).
#pragma once

#include "base/status.hpp"
#include "debugger.hpp"
#include "ending_options.hpp"
#include "node_options.hpp"
#include "output_options.hpp"
#include "placement_options.hpp"
#include "program_options.hpp"

#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

enum class MpsChoice { kAuto, kOn, kOff };

// What is printed of the plan and the machine.
struct ReportOptions {
    bool bindings = false;
    bool topology = false; // --topo
    bool json = false;
    bool dry_run = false;              // print, and start nothing
    std::optional<std::string> record; // --topology: a machine that hwloc has recorded, in place of this one
};

struct Options {
    std::vector<Program> programs; // at least one; of a dry run its command may be empty
    PlacementOptions placement;
    ReportOptions report;
    bool compat_environment = true; // the names of other launchers, too
    MpsChoice mps = MpsChoice::kAuto;
    OutputOptions output;
    EndingOptions ending;
    NodeOptions nodes;
    std::optional<Debugger> debugger; // of one rank
    std::string trace;                // the file of the trace; "": none
};

struct ParsedOptions {
    Options options;
    std::string to_print; // not empty: print this and be done (--help, --version)
};

base::Result<ParsedOptions> parse_options(int argc, const char* const* argv);

// That a job of several nodes has all that is asked for.
base::Result<void> check_for_nodes(const Options& options);

} // namespace gpurun::launcher
