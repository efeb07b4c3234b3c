// One run of gpurun, from its command line to its exit status: the order of things, each done elsewhere.
#pragma once

namespace gpurun::launcher {

// Exit statuses of gpurun's own: 2 for a command line that cannot be followed, 126 and 127 as in a shell for a
// program that cannot be executed or found, 1 for everything else.
int run(int argc, const char* const* argv, const char* const* environment);

} // namespace gpurun::launcher
