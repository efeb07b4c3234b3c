// The hosts of a job of several nodes, as the command line names them, and how ranks fill them. Pure functions.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpurun::launcher {

struct Host {
    std::string name;
    std::optional<uint32_t> slots; // ranks that it takes; none: as many as it has devices
};

// "a,b:4,[fd00::1]:2". Names that an agent could mistake for its options are refused, and so is a host named twice.
base::Result<std::vector<Host>> parse_hosts(const std::string& text);

// The text of a file with one host a line: "a", "b:4", "b slots=4"; "#" begins a comment. `file` is for the errors.
base::Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& file);

// How many ranks each host gets: `slots` of the first one, then of the next. `ranks` is what -n asks for; none: all
// slots. With `oversubscribe`, what does not fit goes round again.
base::Result<std::vector<uint32_t>> fill_hosts(const std::vector<uint32_t>& slots, std::optional<uint32_t> ranks,
                                               bool oversubscribe);

} // namespace gpurun::launcher
