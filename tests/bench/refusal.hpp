// Why the program ends before it measures: a mistake in its command line, or a request for help. A value, so that the
// ranks can agree on who prints it.
#pragma once

#include <string>
#include <variant>

namespace gpurun::bench {

struct Refusal {
    int exit_status = 2;
    std::string text; // for standard error, or for standard output if the status is 0
};

template <typename T>
using Or = std::variant<T, Refusal>;

} // namespace gpurun::bench
