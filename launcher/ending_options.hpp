// What the command line says of how a job may end.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace gpurun::launcher {

class OptionReader;

struct EndingOptions {
    bool keep_going = false;
    int64_t grace_ms = 2000;                // between asking ranks to end and killing them
    std::optional<int64_t> timeout_ms;      // of the whole job
    std::optional<int64_t> hang_timeout_ms; // of a wait, before what ranks wait for is printed
};

// The words as written.
struct EndingWords {
    bool keep_going = false;
    std::optional<std::string> grace;
    std::optional<std::string> timeout;
    std::optional<std::string> hang_timeout;
};

void add_ending_options(OptionReader& reader, EndingWords& words);
base::Result<EndingOptions> understand(const EndingWords& words);

} // namespace gpurun::launcher
