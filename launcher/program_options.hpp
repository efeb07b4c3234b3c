// The programs of a job, as the command line names them: PROGRAM with its arguments, or several of them between
// words ":", each with how many ranks run it, where, and what is set for them.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpurun::launcher {

class OptionReader;

// --env NAME[=VALUE]
struct Setting {
    std::string name;
    std::optional<std::string> value; // none: the one that gpurun has itself
};

struct Program {
    std::optional<uint32_t> ranks;
    std::vector<Setting> settings;
    std::optional<std::string> folder; // where it runs; none: where gpurun does
    std::vector<std::string> command;  // PROGRAM and its arguments
};

// The options as written, before any of them is understood.
struct ProgramWords {
    std::optional<std::string> ranks;
    std::vector<std::string> settings;
    std::optional<std::string> folder;

    void add_to(OptionReader& reader);
};

base::Result<Program> understand(const ProgramWords& words, std::vector<std::string> command);

// How many ranks the -n of all programs ask for together; none: nobody says.
std::optional<uint32_t> wanted_ranks(const std::vector<Program>& programs);

// The words of a command line, without gpurun's name, cut at those that are ":".
std::vector<std::vector<std::string>> split_programs(int argc, const char* const* argv);

} // namespace gpurun::launcher
