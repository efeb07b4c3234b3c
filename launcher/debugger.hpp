// --debug RANK[:COMMAND]: one rank runs under a debugger, or whatever COMMAND is, and has the terminal.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace gpurun::launcher {

inline constexpr const char* kDebug = "--debug";

struct Debugger {
    uint32_t rank = 0;
    std::vector<std::string> command; // before the rank's program and its arguments
    std::string path;                 // where command[0] is; set once it has been looked for
};

base::Result<Debugger> parse_debugger(const std::string& text);

} // namespace gpurun::launcher
