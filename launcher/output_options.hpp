// What the command line says of the ranks' output and input.
#pragma once

#include "base/status.hpp"
#include "rank_set.hpp"

#include <optional>
#include <string>

namespace gpurun::launcher {

class OptionReader;

// Whether ranks print to pseudo-terminals: where the system has some, always, never.
enum class PtyChoice { kAuto, kOn, kOff };

struct OutputOptions {
    PtyChoice pty = PtyChoice::kAuto;
    bool tag = false;       // "[rank] " before each line
    bool tag_host = false;  // with the host
    bool timestamp = false; // the time before each line
    std::string folder;     // for a file of each rank and stream; "": none
    RankSet shown = RankSet::all();
    RankSet readers = RankSet::one(0); // of gpurun's input: one rank, all, or none
};

// The words as written.
struct OutputWords {
    std::optional<std::string> pty;
    std::optional<std::string> tag;
    bool timestamp = false;
    std::optional<std::string> folder;
    std::optional<std::string> filter;
    std::optional<std::string> input;
};

void add_output_options(OptionReader& reader, OutputWords& words);
base::Result<OutputOptions> understand(const OutputWords& words);
// kArgument if a rank is named that the job does not have.
base::Result<void> check_ranks(const OutputOptions& options, uint32_t ranks);

} // namespace gpurun::launcher
