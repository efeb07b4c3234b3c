// A pseudo-terminal as the way of a program's output: the program writes to a terminal, and this process reads it.
//
// It is raw: what is written is what is read, byte for byte, and nothing is echoed. It never becomes the controlling
// terminal of anybody here, so no signal comes from it, neither when it is written to from the background nor when it
// is closed. It differs from a pipe in three ways. What is not read fills it after 8 to 16 KiB. The end of the stream
// is an error of the read (EIO), which comes after all that was written. And who writes when nobody can read any more
// gets EIO too, but no SIGPIPE.
#pragma once

#include "base/status.hpp"
#include "platform/byte_stream.hpp"

#include <cstdint>

namespace gpurun::platform {

// Both ends close on exec; the end that is read never waits.
base::Result<Pipe> create_pseudo_terminal();

// Of a terminal; 0: unknown.
struct WindowSize {
    uint16_t columns = 0;
    uint16_t rows = 0;
};
WindowSize window_size(int fd);
void set_window_size(int fd, WindowSize size);

} // namespace gpurun::platform
