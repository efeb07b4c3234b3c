// Reading and writing pipes, terminals and files without ever waiting for them.
//
// The descriptors may be shared with other processes (a shell's terminal), so none is made non-blocking. Instead each
// call first asks whether it would have to wait. Another process may fill a pipe in between; a caller that must not
// wait even then takes a write end of its own (own_write_end()).
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace gpurun::platform {

// The numbers that every program starts with.
inline constexpr int kStandardInput = 0, kStandardOutput = 1, kStandardError = 2;

struct Pipe {
    UniqueFd read_end;
    UniqueFd write_end;
};
base::Result<Pipe> create_pipe(); // both ends close on exec

// Another write end of the pipe or terminal that `fd` writes to, which never waits, whatever `fd` does. None where that
// is neither, or where the system refuses (another user's pipe, no /proc). There is no such thing for reading: a FIFO
// that is opened after its last writer has gone never says so.
UniqueFd own_write_end(int fd);

enum class StreamState { kOpen, kWouldWait, kClosed };

struct Transfer {
    StreamState state = StreamState::kOpen; // kOpen: all that was asked for; of a read, at least one byte
    size_t bytes = 0;
    int error_number = 0; // why it is kClosed, if not because the other end was closed
};

// kClosed: the end of the stream, or it can no longer be read.
Transfer read_now(int fd, std::span<char> buffer);
// Writes as much as goes without waiting. kClosed: nobody reads, or it can no longer be written (a full disk).
Transfer write_now(int fd, std::string_view data);
// Writes everything, waiting as long as it takes; for the few lines of a launcher that has no loop yet. What kept it
// from that, as an error number; 0: nothing, or that nobody reads any more.
int write_all(int fd, std::string_view data);

// Opens /dev/null on each of the descriptors 0 to 2 that is closed, so that no pipe of ours gets their numbers.
base::Result<void> open_standard_streams();
base::Result<UniqueFd> open_null();
// Writes all of it to standard output. That nobody reads any more is no error.
base::Result<void> print(std::string_view text);
base::Result<std::string> read_file(const std::string& path);
// A file to be written, empty even if it was there before. Errors call it `name`, or `path` if that is "".
base::Result<UniqueFd> create_file(const std::string& path, std::string_view name = {});

bool is_terminal(int fd);
// Whether this process may read from the terminal `fd` without being stopped.
bool in_foreground(int fd);
// Whether both descriptors lead to the same pipe, file or terminal.
bool same_file(int a, int b);

} // namespace gpurun::platform
