// Where ranks print: each to a pseudo-terminal.
//
// To a pipe, C, C++, Fortran and Python print by blocks: nothing shows until some kilobytes are there, and what is not
// there yet is lost with a rank that is killed, which is when it is wanted. To a terminal they print by lines. Nothing
// else tells all of them so: the variables of Python and Fortran are their own, and a library that is preloaded into C
// programs, as stdbuf(1) does it, is not heard by static ones and disturbs sanitizers. Standard error is a pipe all the
// same, since none of them keeps what is printed there.
//
// A program does more on a terminal than that. It looks for its size, which is that of gpurun's own. It prints colours,
// which must not get into files: where they could, it is told that the terminal has none. And it may want to page, for
// which it would read keys that a process in the background of gpurun's terminal cannot read: it would be stopped.
#pragma once

#include "environment.hpp"
#include "output_options.hpp"
#include "platform/byte_stream.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpurun::launcher {

struct StandardOutputs {
    std::vector<platform::Pipe> of_ranks;
    bool terminals = false; // all of them, or none
    std::string notice;     // for the user; "": none
};
base::Result<StandardOutputs> open_standard_outputs(PtyChoice choice, uint32_t ranks);

// Tells a rank with a terminal what that one can do. What --env has set, which `chosen` has among others, stays.
void describe_terminal(std::vector<std::string>& environment, std::span<const Variable> chosen, bool has_colours);

} // namespace gpurun::launcher
