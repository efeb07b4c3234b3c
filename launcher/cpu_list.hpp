// CPUs as people and Linux write them: "0-7,16-23".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpurun::launcher {

// Ascending, each once; "" for none.
std::string format_cpus(const std::vector<int>& cpus);

// Nothing if it is no list of CPUs. `separator` stands between ranges.
std::optional<std::vector<int>> parse_cpus(std::string_view text, char separator);

} // namespace gpurun::launcher
