// What gpurun itself has to say, as its standard error gets it: each line begins with its name, so that people, and
// grep, can tell it from what ranks print. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace gpurun::launcher {

// `text` may be one line or several, and need not end the last.
std::string as_own_lines(std::string_view text);

} // namespace gpurun::launcher
